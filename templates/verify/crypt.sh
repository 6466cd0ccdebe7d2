{% include 'verify-dm.sh' %}

# Whether dm-crypt shows one of its flags, among those in $flags.
told_flag() {
  local got=off
  if [[ $flags == *" $1 "* ]]; then got=on; fi
  told "crypt.$1" "$2" "$got"
}

{% for one in layer.mappings %}
told_mapping crypt {{ one.name }} {{ one.member }} crypt 6 {{ one.uuid }}
told crypt.cipher {{ layer.cipher }} "${row[3]-absent}"
# A key is shown as noughts, or as its size and where the kernel keeps it.
got=${row[4]-}
if [[ $got == :* ]]; then
  got=${got#:}
  got=$((${got%%:*} * 8))
else
{% raw %}
  got=$((${#got} * 4))
{% endraw %}
fi
told crypt.key_size {{ layer.key_size }} "$got"
{% if one.stripe %}
stripe={{ one.stripe }}
told crypt.misaligned 0 "$((${row[7]:-1} * 512 % stripe))"
{% endif %}
flags=" ${row[*]:9} "
got=512
if [[ $flags =~ sector_size:([0-9]+) ]]; then got=${BASH_REMATCH[1]}; fi
told crypt.sector_size {{ layer.sector_size }} "$got"
{% for flag, wanted in layer.flags %}
told_flag {{ flag }} {{ wanted }}
{% endfor %}
{% endfor %}

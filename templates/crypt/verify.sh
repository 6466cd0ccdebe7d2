{% include 'verify-dm.sh' %}

# Checks a flag of dm-crypt on the mapping $1, among those in $flags.
told_flag() {
  local got=off
  if [[ $flags == *" $2 "* ]]; then got=on; fi
  told "$1.$2" "$3" "$got"
}

{% for one in layer.mappings %}
told_mapping {{ layer.names[loop.index0] }} {{ one.name }} {{ one.member }} crypt 6 {{ one.uuid }}
told {{ layer.names[loop.index0] ~ '.cipher' }} {{ layer.cipher }} "${row[3]-absent}"
# The kernel shows a key as zeros, or as its size and keyring.
got=${row[4]-}
if [[ $got == :* ]]; then
  got=${got#:}
  got=$((${got%%:*} * 8))
else
{% raw %}
  got=$((${#got} * 4))
{% endraw %}
fi
told {{ layer.names[loop.index0] ~ '.key_size' }} {{ layer.key_size }} "$got"
{% if one.stripe %}
stripe={{ one.stripe }}
told {{ layer.names[loop.index0] ~ '.misaligned' }} 0 "$((${row[7]:-1} * 512 % stripe))"
{% endif %}
flags=" ${row[*]:9} "
got=512
if [[ $flags =~ sector_size:([0-9]+) ]]; then got=${BASH_REMATCH[1]}; fi
told {{ layer.names[loop.index0] ~ '.sector_size' }} {{ layer.sector_size }} "$got"
{% set name = layer.names[loop.index0] %}
{% for flag, wanted in layer.flags %}
told_flag {{ name }} {{ flag }} {{ wanted }}
{% endfor %}
{% endfor %}

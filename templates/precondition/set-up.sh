
{% if layer.discard %}
members=({{ layer.members }})
for device in "${members[@]}"; do
  blkdiscard "$device" || fail "$device cannot be discarded:"
done
printf 'note\tprecondition\tdiscarded\n'
{% endif %}
{% for one in layer.passes %}
began=${EPOCHREALTIME/[.,]/}
said=$(fio --eta=never --thread --ioengine=libaio --direct=1 --allow_file_create=0 {{ one.options }} {{ layer.jobs }} 2>&1) || {
  printf '%s\n' "$said" >&2
  fail "preconditioning failed:"
}
took=$((${EPOCHREALTIME/[.,]/} - began))
end=
{% if one.steady %}
end=', steady'
if [[ $said == *attained=no* || $said != *attained=yes* ]]; then end=', NOT steady'; fi
{% endif %}
printf '%s\n' "$said"
printf 'note\tprecondition\t%s: %d.%03d s%s\n' {{ one.words }} $((took / 1000000)) $((took / 1000 % 1000)) "$end"
{% endfor %}
{% if layer.passes %}
# The devices contain random data now, which may look like a signature.
wipefs --quiet --all {{ layer.members }}
{% endif %}

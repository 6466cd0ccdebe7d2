
disk={{ layer.members }}
missing=
parts=({{ layer.tops }})
for part in "${parts[@]}"; do
  if [[ ! -b $part ]]; then missing=yes; fi
done
if [[ -n $missing ]]; then
{% filter indent(2, first=True) %}
{% include 'partition/map.sh' %}
{% endfilter %}
fi

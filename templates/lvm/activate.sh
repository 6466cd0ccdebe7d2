
if [[ {% for top in layer.tops %}{% if not loop.first %} || {% endif %}! -b {{ top }}{% endfor %} ]]; then
  export LVM_SUPPRESS_FD_WARNINGS=1
  config={{ layer.config }}
  memory=${MATRIX_MEMORY:-/run/matrix}/lvm
  mkdir -p "$memory"
  memory+=/{{ layer.tag }}
  lvm vgchange --config "$config" --yes --activate y @{{ layer.tag }}
{% filter indent(2, first=True) %}
{% include 'lvm/remember.sh' %}
{% endfilter %}
fi

{% if files %}
{% if lay_out %}
{% set under_test = (layer.directory,) %}
{% include 'confined.sh' %}
{% endif %}
# Files of another shape would fill the disk. A trial that changes the layout of its files needs new ones.
{% if files.single_use %}
rm -f -- {{ files.whole }}
{% endif %}
if [[ ! -e {{ files.whole }} ]]; then
  rm -f -- {{ layer.directory }}/*.whole
  find {{ layer.directory }} -maxdepth 1 -type f -delete
{% if lay_out %}
  said=$(printf '%s' {{ lay_out }} | confined fio - 2>&1) || {
    printf '%s\n' "$said" >&2
    fail "laying files out:"
  }
{% endif %}
{% if not files.single_use %}
  : >{{ files.whole }}
{% endif %}
fi
{% endif %}

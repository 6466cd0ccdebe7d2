{% include 'verify-dm.sh' %}

{% for one in layer.mappings %}
{% set name = layer.names[loop.index0] %}
told_mapping {{ name }} {{ one.name }} {{ one.member }} writecache 4 {{ one.uuid }}
kernel_name {{ layer.cache }}
first_line "/sys/class/block/$REPLY/dev"
told {{ name ~ '.cache' }} "$REPLY" "${row[5]-absent}"
told {{ name ~ '.block_size' }} {{ layer.block_size }} "${row[6]-absent}"
{% for key, wanted in layer.options.items() %}
got=absent
if [[ " ${row[*]:8} " =~ \ {{ key }}\ ([0-9]+)\  ]]; then got=${BASH_REMATCH[1]}; fi
told {{ name ~ '.' ~ key }} {{ wanted }} "$got"
{% endfor %}
read -ra row < <(dmsetup status {{ one.name }}) || true
told {{ name ~ '.error' }} 0 "${row[3]-absent}"
told {{ name ~ '.blocks' }} - "${row[4]-absent}"
{% endfor %}

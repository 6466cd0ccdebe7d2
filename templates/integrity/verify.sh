{% include 'verify-dm.sh' %}

# Puts an option of a mapping's table, like block_size:4096, into $got; its default if it is missing.
dm_word() {
  got=$2
  if [[ " ${row[*]:8} " =~ \ $1:([^ ]+)\  ]]; then got=${BASH_REMATCH[1]}; fi
}
{% for one in layer.mappings %}
told_mapping {{ layer.names[loop.index0] }} {{ one.name }} {{ one.member }} integrity 3 {{ one.uuid }}
told {{ layer.names[loop.index0] ~ '.tag_size' }} {{ layer.tag_size }} "${row[5]-absent}"
case ${row[6]-absent} in
  J) got=journal ;;
  B) got=bitmap ;;
  D) got=direct ;;
  *) got=${row[6]-absent} ;;
esac
told {{ layer.names[loop.index0] ~ '.mode' }} {{ layer.mode }} "$got"
dm_word internal_hash absent
told {{ layer.names[loop.index0] ~ '.algorithm' }} {{ layer.algorithm }} "$got"
dm_word block_size 512
told {{ layer.names[loop.index0] ~ '.sector_size' }} {{ layer.sector_size }} "$got"
dm_word interleave_sectors 0
told {{ layer.names[loop.index0] ~ '.interleave' }} {{ layer.interleave }} "$((got * 512))"
dm_word journal_sectors 0
{% if layer.journal_size %}
# The kernel rounds a journal down to whole sections, of less than 256 KiB.
got=$((got * 512))
if ((got <= {{ layer.journal_size }} && got > {{ layer.journal_size }} - 262144)); then got={{ layer.journal_size }}; fi
told {{ layer.names[loop.index0] ~ '.journal_size' }} {{ layer.journal_size }} "$got"
{% else %}
told {{ layer.names[loop.index0] ~ '.journal_size' }} - "$((got * 512))"
{% endif %}
{% endfor %}


# Error flag, blocks, free blocks, blocks under writeback; newer kernels also count reads and writes.
{% for one in layer.mappings %}
state=$(dmsetup status {{ one.name }})
read -ra row <<<"$state"
note {{ layer.names[0] ~ '.after' }} "$state"
[[ ${row[3]} == 0 ]] ||
  fail "not as declared: {{ layer.names[0] }}.error wanted 0 until the end of the measurement, kernel says ${row[3]}"
{% endfor %}

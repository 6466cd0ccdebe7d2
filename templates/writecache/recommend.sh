
# It must be set up again by hand after a boot: without its first line, this finds the writes in the cache.
dd if=/dev/zero of={{ layer.cache }} bs=4096 count=2 conv=notrunc,fsync status=none
target=({{ layer.target }})
{% for one in layer.mappings %}
dmsetup create {{ one.name }} --table "0 $(blockdev --getsz {{ one.member }}) ${target[*]}"
{% endfor %}

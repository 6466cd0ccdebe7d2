
{% include 'dm.sh' %}
# The first page has the mark of this program. The second one is where the kernel looks for an earlier cache.
dd if=/dev/zero of={{ layer.cache }} bs=4096 count=2 conv=notrunc,fsync status=none
printf '%s' {{ layer.mappings[0].mark }} | dd of={{ layer.cache }} bs=512 conv=notrunc,fsync status=none
{% include 'writecache/open.sh' %}

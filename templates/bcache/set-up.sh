
{% include 'retry.sh' %}
# An earlier cache may have left its journal, and the kernel would read it.
dd if=/dev/zero of={{ layer.cache }} bs=1M count={{ layer.journal }} iflag=count_bytes conv=notrunc,fsync status=none
make-bcache {{ layer.options }} -B {{ layer.origin }} -C {{ layer.cache }} >/dev/null
{% include 'bcache/open.sh' %}

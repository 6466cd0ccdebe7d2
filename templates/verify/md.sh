{% if layer.redundant %}

# Where the bitmap lies is the kernel's business; whether there is one was declared.
kernel_name {{ layer.device }}
first_line "/sys/class/block/$REPLY/md/bitmap/location"
[[ $REPLY == none ]] || REPLY=internal
compare md.bitmap {{ layer.bitmap }} "$REPLY"
{% endif %}

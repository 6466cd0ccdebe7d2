[[ -d {{ layer.directory }} ]] || mkdir -p {{ layer.directory }}
{% if layer.type.startswith('ext') %}
# Since 5.13 kernels read all block bitmaps in the background of a mount, which would be in the way of what is measured.
mount -o no_prefetch_block_bitmaps {{ layer.mount }} 2>/dev/null || mount {{ layer.mount }}
{% else %}
mount {{ layer.mount }}
{% endif %}
# How the kernel writes what was asked for is kept, so that a change behind our back is noticed.
mounted {{ layer.directory }}
printf '%s\n' "$REPLY" >{{ layer.directory }}.mounted

[[ -d {{ layer.directory }} ]] || mkdir -p {{ layer.directory }}
{% if layer.type.startswith('ext') %}
# Since 5.13 kernels read all block bitmaps in the background after a mount, which would disturb the measurement.
mount -o no_prefetch_block_bitmaps {{ layer.mount }} 2>/dev/null || mount {{ layer.mount }}
{% else %}
mount {{ layer.mount }}
{% endif %}
# The kernel's notation of the options is kept, so that later scripts notice a change.
mounted {{ layer.directory }}
printf '%s\n' "$REPLY" >{{ layer.directory }}.mounted

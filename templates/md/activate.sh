
# Older kernels keep an empty device where an array was stopped: that there is one is not enough.
if ! mdadm --detail {{ layer.device }} >/dev/null 2>&1; then
  mdadm --assemble {{ layer.device }} --run --quiet --uuid={{ layer.uuid }} {{ layer.members }}
fi


# Older kernels keep an empty device after an array was stopped, so its existence proves nothing.
if ! mdadm --detail {{ layer.device }} >/dev/null 2>&1; then
  mdadm --assemble {{ layer.device }} --run --quiet --uuid={{ layer.uuid }} {{ layer.members }}
fi

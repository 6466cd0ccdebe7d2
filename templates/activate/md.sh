
if [[ ! -e {{ layer.device }} ]]; then
  mdadm --assemble {{ layer.device }} --run --quiet --uuid={{ layer.uuid }} {{ layer.members }}
fi


mdadm --create {{ layer.tops }} --run --homehost=any --name={{ layer.name }} \
  {{ layer.options }} \
  {{ layer.arguments }}
# For the initramfs to know it, on Debian: mdadm --detail --scan >>/etc/mdadm/mdadm.conf; update-initramfs -u
{% if layer.write_mostly %}
array={{ layer.tops[0] }}
node=$(basename "$(readlink -f "$array")")
rarely_read=({{ layer.write_mostly }})
for member in "${rarely_read[@]}"; do
  echo writemostly >/sys/class/block/"$node"/md/dev-"$(basename "$(readlink -f "$member")")"/state
done
{% endif %}
{% if layer.lost %}
# It was measured without {{ layer.lost }}, which is not recommended.
{% endif %}


mdadm --create {{ layer.tops }} --run --homehost=any --name={{ layer.name }} \
  {{ layer.options }} \
  {{ layer.arguments }}
{% if '--bitmap=none' in layer.options %}
# It was measured without a bitmap: after a crash, md syncs the whole array. To sync only what was being written, at
# the cost of slower writes: mdadm --grow --bitmap=internal {{ layer.tops }}
{% endif %}
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

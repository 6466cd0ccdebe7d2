[[ -d {{ layer.directory }} ]] || mkdir -p {{ layer.directory }}
mount {{ layer.mount }}
# How the kernel writes what was asked for is kept, so that a change behind our back is noticed.
mounted {{ layer.directory }}
printf '%s\n' "$REPLY" >{{ layer.directory }}.mounted

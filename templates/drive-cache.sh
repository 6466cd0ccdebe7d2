# Puts the file that switches the cache of a drive into $REPLY: of SCSI and SATA disks (a mode page, which the kernel
# translates to the ATA command of `hdparm -W`) or of virtio disks.
drive_cache() {
  for REPLY in "$1"/device/scsi_disk/*/cache_type "$1"/cache_type; do
    if [[ -e $REPLY ]]; then return 0; fi
  done
}

# What vagrant-libvirt cannot do with disks: those that an NBD server answers for, and block devices of this host.
#
#   libvirt.storage :served, socket: "/run/x", …     libvirt.storage :block, dev: "/dev/disk/by-id/…", …
#
# with device:, bus: (virtio, scsi, sata), serial:, wwn:, rotation:, cache:, io:, discard:, errors:. And all disks on the scsi bus hang on one
# virtio-scsi controller: libvirt itself would put those from the eighth on, or all of them, on a kind that few kernels know.
require "rexml/document"
require "vagrant-libvirt/config"
require "vagrant-libvirt/action/create_domain"

module Matrix
  # The names that libvirt wants disks to have. What they are called in the machine is another matter: look for serial numbers.
  module Letters
    PREFIXES = { "virtio" => "vd", "scsi" => "sd", "sata" => "sd" }.freeze

    def self.of(disks)
      # vda is the box, vdb the guard
      free = { "vd" => ("c".."zz").each, "sd" => ("a".."zz").each }
      disks.map do |disk|
        prefix = PREFIXES.fetch(disk.fetch(:bus, "scsi")) { |bus| abort "vagrant-libvirt has no #{bus} bus" }
        kind = %i[socket dev].find { |key| disk[key] }
        as = { socket: :served, dev: :block }.fetch(kind, :file)
        { bus: "scsi" }.merge(disk, as: as, device: prefix + free[prefix].next)
      end
    end
  end

  module Config
    KINDS = %i[served block].freeze

    attr_writer :unconfined

    def unconfined
      @unconfined ||= []
    end

    def other_disks
      @other_disks ||= []
    end

    # Blocks of a Vagrantfile are evaluated more than once.
    def storage(kind, options = {})
      return super unless KINDS.include?(kind)

      disk = options.merge(kind: kind)
      other_disks << disk unless other_disks.include?(disk)
    end

    def merge(other)
      super.tap do |merged|
        merged.instance_variable_set(:@other_disks, (other_disks + other.other_disks).uniq)
        merged.unconfined = (unconfined + other.unconfined).uniq
      end
    end
  end

  # The elements of a domain.
  module Domain
    module_function

    def disk(devices, options, number)
      served = options[:kind] == :served
      disk = devices.add_element("disk", "type" => served ? "network" : "block", "device" => "disk")
      disk.add_element("alias", "name" => "ua-matrix-#{number}")
      driver(disk, options, served)
      source(disk, options, served)
      target = { "dev" => options[:device], "bus" => options[:bus] }
      target["rotation_rate"] = options[:rotation].to_s if options[:rotation] && options[:bus] != "virtio"
      disk.add_element("target", target)
      %i[serial wwn].each { |name| disk.add_element(name.to_s).text = options[name] if options[name] }
    end

    def driver(disk, options, served)
      usual = served ? { cache: "writeback" } : { cache: "none", io: "native" }
      given = usual.merge(options.slice(:cache, :io, :discard)).compact
      words = { "name" => "qemu", "type" => "raw" }.merge(given.transform_keys(&:to_s))
      words["error_policy"] = options[:errors] if options[:errors]
      disk.add_element("driver", words)
    end

    def source(disk, options, served)
      return disk.add_element("source", "dev" => options[:dev]) unless served

      disk.add_element("source", "protocol" => "nbd")
          .add_element("host", "transport" => "unix", "socket" => options[:socket])
    end

    def one_controller(devices)
      hanging = devices.get_elements("disk[target/@bus='scsi']")
      return if hanging.empty?

      devices.add_element("controller", "type" => "scsi", "index" => "0", "model" => "virtio-scsi")
      hanging.each_with_index do |disk, target|
        place = { "type" => "drive", "controller" => "0", "bus" => "0", "target" => target.to_s, "unit" => "0" }
        disk.add_element("address", place)
      end
    end
  end

  module CreateDomain
    def call(env)
      @matrix = env[:machine].provider_config
      super
    end

    def to_xml(*words)
      text = super
      tree = REXML::Document.new(text)
      return text unless tree.root&.name == "domain"

      devices = tree.root.elements["devices"]
      @matrix.other_disks.each_with_index { |options, number| Domain.disk(devices, options, number) }
      Domain.one_controller(devices)
      @matrix.unconfined.each { |model| tree.root.add_element("seclabel", "type" => "none", "model" => model) }
      String.new.tap { |text| tree.write(text) }
    end
  end
end

VagrantPlugins::ProviderLibvirt::Config.prepend Matrix::Config
VagrantPlugins::ProviderLibvirt::Action::CreateDomain.prepend Matrix::CreateDomain

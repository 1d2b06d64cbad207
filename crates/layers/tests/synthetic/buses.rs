//! Which events mark a device's time on each bus.

use roundtrip_layers::storage::{Begin, Doubt, End, Layer, Writes};

use super::{COMPLETE, DISK, ISSUE, PARTITION, QUEUE, WRITER, devices, found, layers};
use crate::written::Is::{Bytes, Int, Long, Text};
use crate::written::Written;

fn ufs(written: &mut Written, time_ns: u64, cpu: u32, sent: bool, tag: u32, lba: u64, opcode: u32) {
    written.event(
        time_ns,
        cpu,
        WRITER,
        "ufs/ufshcd_command",
        &[
            ("dev_name", Text("1d84000.ufshc")),
            ("str_t", Int(u32::from(!sent))),
            ("tag", Int(tag)),
            ("lba", Long(lba)),
            ("opcode", Int(opcode)),
        ],
    );
}

#[test]
fn ufs_commands_are_joined_to_their_requests_by_block_and_to_their_answers_by_tag() {
    let mut written = Written::default();
    for (time_ns, sector) in [(1_100, 80), (1_200, 800)] {
        written.block(time_ns, 0, WRITER, QUEUE, PARTITION, (sector, 8, "WS"));
        written.block(time_ns + 20, 0, WRITER, ISSUE, DISK, (sector, 8, "WS"));
    }
    // The events of the layer above are further from the controller, and are not used. Blocks have
    // 4096 bytes.
    let scsi = [
        ("host_no", Int(0)),
        ("channel", Int(0)),
        ("id", Int(0)),
        ("lun", Int(1)),
        ("driver_tag", Int(3)),
        ("cmnd", Bytes(&[0x2a, 0, 0, 0, 0, 10, 0, 0, 1])),
    ];
    written.event(1_300, 0, WRITER, "scsi/scsi_dispatch_cmd_start", &scsi);
    ufs(&mut written, 1_400, 0, true, 3, 10, 0x2a);
    ufs(&mut written, 1_500, 0, true, 4, 100, 0x2a);
    written.interrupt((3_000, 3_500), 1, "ufshcd");
    ufs(&mut written, 3_100, 1, false, 4, 100, 0x2a);
    written.block(3_200, 1, 0, COMPLETE, DISK, (800, 8, "WS"));
    written.event(3_900, 0, WRITER, "scsi/scsi_dispatch_cmd_done", &scsi);
    ufs(&mut written, 4_000, 0, false, 3, 10, 0x2a);
    written.block(4_200, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    // A flush is issued at one sector and completed at another.
    written.block(5_000, 0, WRITER, QUEUE, PARTITION, (0, 0, "FWS"));
    written.block(5_050, 0, WRITER, ISSUE, DISK, (0, 0, "FF"));
    ufs(&mut written, 5_100, 0, true, 3, 0, 0x35);
    written.interrupt((6_000, 6_500), 0, "ufshcd");
    ufs(&mut written, 6_100, 0, false, 3, 0, 0x35);
    written.block(6_200, 0, 0, COMPLETE, DISK, (u64::MAX, 0, "FF"));

    let layers = layers(&mut written, devices(&["1d84000.ufshc", "0:0:0:1"], &["ufshcd"], 4096));
    let tag_4 = (800, vec![(1_500, 3_000)], Begin::Ufs, End::Interrupt);
    // One interrupt signalled both answers. Its thread handled this one later.
    let tag_3 = (80, vec![(1_400, 3_000)], Begin::Ufs, End::Interrupt);
    let flush = (0, vec![(5_100, 6_000)], Begin::Ufs, End::Interrupt);
    assert_eq!(found(&layers), [tag_4, tag_3, flush]);
    assert_eq!(layers.total_ns(Layer::Device), (3_000 - 1_400) + (6_000 - 5_100));
}

#[test]
fn ufs_of_older_kernels_tells_sectors_and_says_in_words_what_happens() {
    let mut written = Written::default();
    written.block(1_100, 0, WRITER, QUEUE, DISK, (80, 8, "WS"));
    written.block(1_200, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
    for (time_ns, word) in [(1_400, "send"), (3_000, "complete")] {
        let fields = [
            ("dev_name", Text("1d84000.ufshc")),
            ("str", Text(word)),
            ("tag", Int(3)),
            ("lba", Long(80)),
            ("opcode", Int(0x2a)),
        ];
        written.event(time_ns, 0, WRITER, "ufs/ufshcd_command", &fields);
    }
    written.block(3_500, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    let layers = layers(&mut written, devices(&["1d84000.ufshc", "0:0:0:1"], &["ufshcd"], 4096));
    assert_eq!(found(&layers), [(80, vec![(1_400, 3_000)], Begin::Ufs, End::Ufs)]);
    assert_eq!(layers.total_ns(Layer::Irq), 500);
}

fn mmc(written: &mut Written, time_ns: u64, opcode: u32, mrq: u64, blocks: u32) {
    let fields = [
        ("cmd_opcode", Int(opcode)),
        ("blocks", Int(blocks)),
        ("blk_addr", Int(if blocks > 0 { 80 } else { 0 })),
        ("mrq", Long(mrq)),
        ("name", Text("mmc0")),
    ];
    written.event(time_ns, 0, WRITER, "mmc/mmc_request_start", &fields);
}

fn mmc_done(written: &mut Written, time_ns: u64, opcode: u32, mrq: u64, status: &'static [u8]) {
    let fields = [
        ("cmd_opcode", Int(opcode)),
        ("cmd_err", Int(0)),
        ("cmd_resp", Bytes(status)),
        ("mrq", Long(mrq)),
        ("name", Text("mmc0")),
    ];
    written.event(time_ns, 0, 0, "mmc/mmc_request_done", &fields);
}

#[test]
fn a_cards_write_and_its_status_questions_are_one_request() {
    /// R1: state 7 (programming), not ready; state 4 (transfer), ready for data.
    const BUSY: &[u8] = &[0, 0x0e, 0, 0];
    const READY: &[u8] = &[0, 0x09, 0, 0];
    let mut written = Written::default();
    written.block(1_100, 0, WRITER, QUEUE, PARTITION, (80, 32, "WS"));
    written.block(1_200, 0, WRITER, ISSUE, DISK, (80, 32, "WS"));
    mmc(&mut written, 1_300, 25, 0xffff_8000, 32);
    // Interrupts of the command, of its data, and of the stop command.
    for time_ns in [1_500, 2_000, 2_200] {
        written.interrupt((time_ns, time_ns + 50), 0, "mmc0");
    }
    mmc_done(&mut written, 2_300, 25, 0xffff_8000, READY);
    mmc(&mut written, 2_400, 13, 0xffff_9000, 0);
    written.interrupt((2_500, 2_550), 0, "mmc0");
    mmc_done(&mut written, 2_540, 13, 0xffff_9000, BUSY);
    mmc(&mut written, 4_000, 13, 0xffff_9000, 0);
    // The interrupt of this command was not recorded.
    mmc_done(&mut written, 4_100, 13, 0xffff_9000, READY);
    written.block(4_300, 0, WRITER, COMPLETE, DISK, (80, 32, "WS"));

    let layers = layers(&mut written, devices(&["mmc0"], &["mmc0"], 512));
    let device = vec![(1_300, 2_200), (2_400, 4_000), (4_000, 4_100)];
    assert_eq!(found(&layers), [(80, device, Begin::Mmc, End::Mmc)]);
    assert_eq!(layers.total_ns(Layer::Device), 900 + 1_700);
    // From the data's interrupt to the next command, and from the last answer to the completion.
    assert_eq!(layers.total_ns(Layer::Irq), 200 + 200);
    assert_eq!(layers.total_ns(Layer::Block), 200);
}

fn nvme(written: &mut Written, time_ns: u64, cpu: u32, command: (u32, u32), first: Option<&'static [u8]>) {
    nvme_on("nvme0n1", written, time_ns, cpu, command, first);
}

fn nvme_on(
    disk: &'static str,
    written: &mut Written,
    time_ns: u64,
    cpu: u32,
    (qid, cid): (u32, u32),
    first: Option<&'static [u8]>,
) {
    let controller = u32::from(disk.contains("c1"));
    let mut fields =
        vec![("disk", Text(disk)), ("ctrl_id", Int(controller)), ("qid", Int(qid)), ("cid", Int(cid))];
    match first {
        Some(first) => {
            fields.extend([("opcode", Int(1)), ("cdw10", Bytes(first))]);
            written.event(time_ns, cpu, WRITER, "nvme/nvme_setup_cmd", &fields);
        }
        None => {
            written.event(time_ns, cpu, 0, "nvme/nvme_complete_rq", &fields);
        }
    }
}

#[test]
fn nvme_commands_are_joined_by_queue_and_number() {
    let mut written = Written::default();
    written.block(1_100, 0, WRITER, QUEUE, DISK, (80, 8, "WS"));
    written.block(1_150, 1, WRITER, QUEUE, DISK, (160, 8, "WS"));
    // Commands are set up before their requests are issued. Both queues use the same number.
    nvme(&mut written, 1_200, 0, (1, 7), Some(&[80]));
    written.block(1_210, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
    nvme(&mut written, 1_300, 1, (2, 7), Some(&[160]));
    written.block(1_310, 1, WRITER, ISSUE, DISK, (160, 8, "WS"));
    written.interrupt((2_000, 2_050), 0, "nvme0q1");
    written.interrupt((2_100, 2_150), 1, "nvme0q2");
    // Both complete later in softirqs, on the CPUs where they were issued.
    nvme(&mut written, 2_200, 1, (2, 7), None);
    written.block(2_210, 1, 0, COMPLETE, DISK, (160, 8, "WS"));
    nvme(&mut written, 2_300, 1, (1, 7), None);
    written.block(2_310, 1, 0, COMPLETE, DISK, (80, 8, "WS"));
    let layers = layers(&mut written, devices(&["nvme0"], &["nvme0q1", "nvme0q2"], 512));
    let second = (160, vec![(1_300, 2_100)], Begin::Nvme, End::Interrupt);
    let first = (80, vec![(1_200, 2_000)], Begin::Nvme, End::Interrupt);
    assert_eq!(found(&layers), [second, first]);
    let cpus: Vec<_> = layers.requests.iter().map(|request| request.interrupt_cpu).collect();
    assert_eq!(cpus, [Some(1), Some(0)]);
}

#[test]
fn requests_for_a_hidden_path_of_an_nvme_disk_are_the_disks_and_anothers_are_not() {
    const PATH: u32 = 259 << 20 | 5;
    const OTHER: u32 = 259 << 20 | 6;
    let written = |names: [&'static str; 2]| {
        let mut written = Written::default();
        written.block(1_100, 0, WRITER, QUEUE, PARTITION, (80, 8, "WS"));
        for (at_ns, queue, disk, dev) in [(1_200, 1, names[0], PATH), (1_300, 2, names[1], OTHER)] {
            nvme_on(disk, &mut written, at_ns, 0, (queue, 7), Some(&[80]));
            written.block(at_ns + 10, 0, WRITER, ISSUE, dev, (80, 8, "WS"));
        }
        written.interrupt((2_000, 2_050), 0, "nvme0q1");
        nvme_on(names[0], &mut written, 2_010, 0, (1, 7), None);
        written.block(2_020, 0, 0, COMPLETE, PATH, (80, 8, "WS"));
        written
    };
    let mut ours = devices(&["nvme0"], &["nvme0q1"], 512);
    ours.controllers[0].paths = vec!["nvme0c0n1".into(), "nvme0c3n1".into()];
    let layers = layers(&mut written(["nvme0c0n1", "nvme2c1n1"]), ours.clone());
    assert_eq!(found(&layers), [(80, vec![(1_200, 2_000)], Begin::Nvme, End::Interrupt)]);
    assert_eq!(
        (layers.requests[0].dev, layers.requests[0].queued.as_slice()),
        (DISK, &[(1_100, WRITER)][..])
    );
    // If no event shows which controller the requests belong to, that is reported.
    let trace = written(["", ""]).read();
    let doubts = Writes::new(&trace, ours).doubts();
    assert!(doubts.contains(&Doubt::NoRequestForDevice), "{doubts:?}");
}

#[test]
fn scsi_commands_are_joined_by_unit_and_tag() {
    let mut written = Written::default();
    let mut command = |time_ns: u64, kind: &'static str, lun: u32| {
        let fields = [
            ("host_no", Int(0)),
            ("channel", Int(0)),
            ("id", Int(0)),
            ("lun", Int(lun)),
            ("driver_tag", Int(5)),
            ("cmnd", Bytes(&[0x2a, 0, 0, 0, 0, 80, 0, 0, 8, 0])),
        ];
        written.event(time_ns, 0, WRITER, kind, &fields);
    };
    command(1_300, "scsi/scsi_dispatch_cmd_start", 0);
    // A command of another unit with the same tag and sector.
    command(1_400, "scsi/scsi_dispatch_cmd_start", 1);
    command(2_000, "scsi/scsi_dispatch_cmd_done", 1);
    command(3_000, "scsi/scsi_dispatch_cmd_done", 0);
    written.block(1_100, 0, WRITER, QUEUE, PARTITION, (80, 8, "WS"));
    written.block(1_200, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
    written.block(3_100, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    let layers = layers(&mut written, devices(&["ata1", "0:0:0:0"], &[], 512));
    assert_eq!(found(&layers), [(80, vec![(1_300, 3_000)], Begin::Scsi, End::Scsi)]);
}

#[test]
fn without_events_of_the_bus_a_request_ends_with_the_current_interrupt() {
    let mut written = Written::default();
    for sector in [80, 160] {
        written.block(1_100 + sector, 0, WRITER, QUEUE, DISK, (sector, 8, "WS"));
        written.block(1_400 + sector, 0, WRITER, ISSUE, DISK, (sector, 8, "WS"));
    }
    written.interrupt((2_000, 2_900), 0, "virtio0-req.0");
    written.interrupt((2_100, 2_800), 1, "virtio0-req.1");
    written.block(2_200, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    written.block(2_300, 1, 0, COMPLETE, DISK, (160, 8, "WS"));
    let layers = layers(&mut written, devices(&[], &["virtio0-req.0", "virtio0-req.1"], 512));
    let first = (80, vec![(1_480, 2_000)], Begin::Issue, End::Interrupt);
    let second = (160, vec![(1_560, 2_100)], Begin::Issue, End::Interrupt);
    assert_eq!(found(&layers), [first, second]);
}

#[test]
fn a_request_that_the_driver_gave_back_and_got_again_is_one() {
    let mut written = Written::default();
    written.block(1_100, 0, WRITER, QUEUE, DISK, (80, 8, "WS"));
    written.block(1_200, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
    written.block(1_900, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
    written.block(2_500, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    let layers = layers(&mut written, devices(&[], &[], 512));
    assert_eq!(found(&layers), [(80, vec![(1_900, 2_500)], Begin::Issue, End::Complete)]);
    assert_eq!(layers.total_ns(Layer::Block), 800);
}

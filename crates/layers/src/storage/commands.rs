//! The commands of storage controllers, from the events of each bus: the controller, the number
//! that identifies the answer, and the sectors. Must not know requests, nor whom they are for.

use roundtrip_tracefs::{Event, Trace, Value};

/// The event that shows when a controller received a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Begin {
    /// `block_rq_issue`: the driver receives the request. Used if the bus has no event.
    #[default]
    Issue,
    /// `mmc_request_start`.
    Mmc,
    /// `nvme_setup_cmd`.
    Nvme,
    /// `scsi_dispatch_cmd_start`.
    Scsi,
    /// `ufshcd_command`, when it is sent.
    Ufs,
}

/// The event that shows when a controller finished a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// `block_rq_complete`. Used if there is no better event.
    #[default]
    Complete,
    /// The controller's interrupt (`irq_handler_entry`).
    Interrupt,
    /// `mmc_request_done`.
    Mmc,
    /// `nvme_complete_rq`.
    Nvme,
    /// `scsi_dispatch_cmd_done`.
    Scsi,
    /// `ufshcd_command`, when it is complete.
    Ufs,
}

impl Begin {
    /// The event that marks the command's answer.
    pub(super) fn answer(self) -> End {
        match self {
            Self::Issue => End::Complete,
            Self::Mmc => End::Mmc,
            Self::Nvme => End::Nvme,
            Self::Scsi => End::Scsi,
            Self::Ufs => End::Ufs,
        }
    }
}

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Data at this position, in the device's logical blocks.
    Blocks(u64),
    /// Data at this position, in sectors of 512 bytes.
    Sector(u64),
    /// Data at this position. Kernels differ in whether this is in blocks or sectors.
    Either(u64),
    /// Flushes the device's cache.
    Flush,
    /// A status query, or a command whose purpose the event does not show. It belongs to the
    /// request that the controller is processing.
    Unknown,
}

/// Identifies a command of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The bus with its events.
    pub(super) bus: Begin,
    /// The controller's name in the bus's events.
    pub(super) controller: String,
    /// The command's number, which its answer repeats. It is unique among commands in flight.
    pub(super) number: u64,
    /// On NVMe, the queue whose interrupt signals the answer.
    pub(super) queue: Option<u64>,
}

/// The start or end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Sent {
        label: Label,
        purpose: Purpose,
    },
    Answered {
        label: Label,
        /// The device answered that it is busy. It continues to work until the next query.
        busy: bool,
    },
}

/// The step that an event of a bus shows; `None` for other events, and if a field is missing.
pub(super) fn step(trace: &Trace, event: &Event, kind: &str) -> Option<Step> {
    let fields = Fields { trace, event };
    match kind {
        "mmc/mmc_request_start" => {
            let blocks = fields.number("blocks").unwrap_or(0);
            let purpose = match fields.number("blk_addr") {
                Some(sector) if blocks > 0 => Purpose::Sector(sector),
                _ => Purpose::Unknown,
            };
            Some(Step::Sent { label: mmc(&fields)?, purpose })
        }
        "mmc/mmc_request_done" => Some(Step::Answered { label: mmc(&fields)?, busy: card_is_busy(&fields) }),
        "nvme/nvme_setup_cmd" => {
            /// Opcode of the NVM command set.
            const FLUSH: u64 = 0;
            const READ: u64 = 2;
            let label = nvme(&fields)?;
            // Command dwords 10 and 11 contain the first block's number. The structure is in the
            // machine's byte order, which is little-endian.
            let first =
                fields.bytes("cdw10").and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?)));
            let purpose = match (fields.number("opcode")?, first) {
                (FLUSH, _) => Purpose::Flush,
                (1..=READ, Some(first)) => Purpose::Blocks(first),
                _ => return None,
            };
            Some(Step::Sent { label, purpose })
        }
        "nvme/nvme_complete_rq" => Some(Step::Answered { label: nvme(&fields)?, busy: false }),
        "scsi/scsi_dispatch_cmd_start" => {
            let purpose = fields.bytes("cmnd").and_then(scsi_purpose).unwrap_or(Purpose::Unknown);
            Some(Step::Sent { label: scsi(&fields)?, purpose })
        }
        "scsi/scsi_dispatch_cmd_done" => Some(Step::Answered { label: scsi(&fields)?, busy: false }),
        "ufs/ufshcd_command" => ufs(&fields),
        _ => None,
    }
}

struct Fields<'a> {
    trace: &'a Trace,
    event: &'a Event,
}

impl<'a> Fields<'a> {
    fn number(&self, name: &str) -> Option<u64> {
        self.trace.number(self.event, name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.trace.field(self.event, name)?.text().map(str::to_owned)
    }

    fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        match self.trace.field(self.event, name)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

fn mmc(fields: &Fields<'_>) -> Option<Label> {
    let (controller, number) = (fields.text("name")?, fields.number("mrq")?);
    Some(Label { bus: Begin::Mmc, controller, number, queue: None })
}

/// Whether a card reports in its status that it is still busy (include/linux/mmc/mmc.h, "R1
/// status").
fn card_is_busy(fields: &Fields<'_>) -> bool {
    const SEND_STATUS: u64 = 13;
    const READY_FOR_DATA: u32 = 1 << 8;
    const PROGRAMMING: u32 = 7;
    let status = fields.bytes("cmd_resp").and_then(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?)));
    fields.number("cmd_opcode") == Some(SEND_STATUS)
        && fields.number("cmd_err") == Some(0)
        && status.is_some_and(|status| status & READY_FOR_DATA == 0 || status >> 9 & 15 == PROGRAMMING)
}

fn nvme(fields: &Fields<'_>) -> Option<Label> {
    let (controller, queue) = (fields.number("ctrl_id")?, fields.number("qid")?);
    let number = queue << 32 | fields.number("cid")?;
    // Queue 0 is for administration.
    (queue > 0).then(|| Label {
        bus: Begin::Nvme,
        controller: format!("nvme{controller}"),
        number,
        queue: Some(queue),
    })
}

fn scsi(fields: &Fields<'_>) -> Option<Label> {
    let [host, channel, id, lun] =
        ["host_no", "channel", "id", "lun"].map(|name| fields.number(name)).map(Option::unwrap_or_default);
    // Kernels before 5.12 do not report the tag. Then the command's bytes identify it.
    let number = fields.number("driver_tag").unwrap_or_else(|| {
        let command = fields.bytes("cmnd").unwrap_or_default();
        command.iter().fold(1 << 63, |sum: u64, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
    });
    let controller = format!("{host}:{channel}:{id}:{lun}");
    Some(Label { bus: Begin::Scsi, controller, number, queue: None })
}

/// Decodes a command descriptor block (SCSI Block Commands).
fn scsi_purpose(command: &[u8]) -> Option<Purpose> {
    let big = |from: usize, to: usize| {
        let bytes = command.get(from..to)?;
        Some(bytes.iter().fold(0_u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    match command.first()? {
        // SYNCHRONIZE CACHE (10) and (16).
        0x35 | 0x91 => Some(Purpose::Flush),
        // READ and WRITE (6), with a 21-bit address.
        0x08 | 0x0a => Some(Purpose::Blocks(big(1, 4)? & 0x1f_ffff)),
        // READ and WRITE (10), WRITE AND VERIFY (10), READ and WRITE (12).
        0x28 | 0x2a | 0x2e | 0xa8 | 0xaa => Some(Purpose::Blocks(big(2, 6)?)),
        // READ, WRITE and WRITE AND VERIFY (16).
        0x88 | 0x8a | 0x8e => Some(Purpose::Blocks(big(2, 10)?)),
        _ => None,
    }
}

/// One event reports both start and end. Kernels before 5.12 name them in words.
fn ufs(fields: &Fields<'_>) -> Option<Step> {
    const SYNCHRONIZE_CACHE: [u64; 2] = [0x35, 0x91];
    // enum ufs_trace_str_t (include/ufs/ufs.h): 0 is a command sent, 1 a command completed. The
    // other values do not concern data.
    let sent = match (fields.number("str_t"), fields.text("str").as_deref()) {
        (Some(0), _) | (None, Some("send")) => true,
        (Some(1), _) | (None, Some("complete")) => false,
        _ => return None,
    };
    // Since Linux 6.11, the event names the logical unit instead of the host.
    let controller = fields.text("dev_name").unwrap_or_default();
    let number = fields.number("tag")? | fields.number("hwq_id").unwrap_or(0) << 32;
    let label = Label { bus: Begin::Ufs, controller, number, queue: None };
    if !sent {
        return Some(Step::Answered { label, busy: false });
    }
    let purpose = match (fields.number("opcode"), fields.number("lba")) {
        (Some(opcode), _) if SYNCHRONIZE_CACHE.contains(&opcode) => Purpose::Flush,
        (_, Some(place)) => Purpose::Either(place),
        (_, None) => Purpose::Unknown,
    };
    Some(Step::Sent { label, purpose })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scsi_commands_tell_their_blocks() {
        for (command, purpose) in [
            (&[0x2a, 0, 0, 1, 2, 3, 0, 0, 8, 0][..], Some(Purpose::Blocks(0x1_0203))),
            (&[0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0], Some(Purpose::Blocks(0x1_0000_0002))),
            (&[0x0a, 0xff, 0, 1, 8, 0], Some(Purpose::Blocks(0x1f_0001))),
            (&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], Some(Purpose::Flush)),
            (&[0x12, 0, 0, 0, 36, 0], None),
            (&[0x2a, 0], None),
            (&[], None),
        ] {
            assert_eq!(scsi_purpose(command), purpose, "{command:?}");
        }
    }
}

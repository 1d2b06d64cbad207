use roundtrip_layers::Thread;
use roundtrip_layers::reasons::{Class, Io, Process, Stretch, Subject, WakeUpStep};

use super::*;
use crate::explanation::names::group;

fn by(pid: u32, name: &str, comm: &str, class: Class, reason: Reason) -> Why {
    let thread = Thread { tid: pid, pid: Some(pid), comm: comm.into(), prio: None };
    let process = Process { pid, name: name.into(), class };
    Why { process: Some(process), thread: Some(thread), ..Why::of(reason, Role::Server) }
}

fn said(parts: &[(u64, Why)]) -> String {
    let mut at_ns = 0;
    let stretch = |(us, why): &(u64, Why)| {
        let begin_ns = at_ns;
        at_ns += us * 1_000;
        Stretch { begin_ns, end_ns: at_ns, why: why.clone() }
    };
    let stretches: Vec<Stretch> = parts.iter().map(stretch).collect();
    sentence(&Reasons::of(&stretches, 0), About::default())
}

fn unknown_time() -> Why {
    let reason = Reason::Unknown { why: roundtrip_layers::Unknown::EventsLost };
    Why { process: None, thread: None, ..by(1, "", "", Class::Unknown, reason) }
}

#[test]
fn a_wait_for_a_cpu_names_its_sum_and_the_largest_process() {
    let behind = |pid, name| by(pid, name, name, Class::Ordinary(0), Reason::Cpu);
    let work = by(2, "server", "server", Class::Ordinary(0), Reason::OwnWork);
    assert_eq!(
        said(&[
            (4_000, behind(7, "git")),
            (8_100, behind(8, "rustc")),
            (5_400, behind(9, "cc")),
            (300, work)
        ]),
        "the server waited 17.5 of 17.8 ms for a CPU, behind 3 processes, most of all rustc: 8.10 ms"
    );
    let on_cpu_3 = |pid, name| Why { cpu: Some(3), ..behind(pid, name) };
    assert_eq!(
        said(&[(4_000, on_cpu_3(7, "git")), (4_100, on_cpu_3(8, "rustc")), (900, on_cpu_3(9, "cc"))]),
        "the server waited 9.00 ms for CPU 3, behind 3 processes, most of all rustc: 4.10 ms"
    );
    let fifo = by(7, "java", "C2 CompilerThre", Class::RealTime(50), Reason::Cpu);
    assert_eq!(
        said(&[(10_800, fifo)]),
        "the server waited 10.8 ms for a CPU, behind java [real-time 50], thread C2 CompilerThre"
    );
}

#[test]
fn processes_of_one_name_and_class_count_together_where_no_process_has_half() {
    let behind = |pid, name| by(pid, name, name, Class::Ordinary(0), Reason::Cpu);
    let real_time = by(9, "crowd", "crowd", Class::RealTime(50), Reason::Cpu);
    let crowd = [(1_500, behind(6, "crowd")), (1_600, behind(7, "crowd")), (1_700, behind(8, "crowd"))];
    assert_eq!(said(&crowd), "the server waited 4.80 ms for a CPU, behind 3 processes named crowd");
    let beside = [&crowd[..], &[(3_000, behind(5, "rustc")), (900, real_time)]].concat();
    assert_eq!(
        said(&beside),
        "the server waited 8.70 ms for a CPU, behind 5 processes, most of all 3 processes named crowd: 4.80 ms"
    );
}

#[test]
fn who_did_not_move_is_said_if_nearly_all_time_was_its() {
    let work = by(2, "server", "server", Class::Ordinary(0), Reason::OwnWork);
    let clients = Why { role: Role::Client, ..work.clone() };
    assert_eq!(said(&[(5_300, work.clone()), (300, clients.clone())]), "the server itself ran 5.60 ms");
    assert_eq!(said(&[(4_900, work), (700, clients)]), "it itself ran 5.60 ms");
}

#[test]
fn a_low_frequency_is_said_with_its_cpu() {
    let work = by(2, "server", "server", Class::Ordinary(0), Reason::OwnWork);
    let slow = |cpu| Why { process: None, thread: None, ..Why::of(Reason::SlowCpu { cpu }, Role::Server) };
    assert_eq!(
        said(&[(500, work), (2_000, slow(3))]),
        "the server ran 2.00 of 2.50 ms longer because of the low frequency of CPU 3"
    );
    let holder = Thread { tid: 7, pid: Some(7), comm: "holder".into(), prio: None };
    assert_eq!(
        said(&[(2_000, Why { chain: vec![holder], ..slow(3) })]),
        "the server waited for holder, which ran 2.00 ms longer because of the low frequency of CPU 3"
    );
    let idle = Reason::WakeUp { step: WakeUpStep::IdleExit { state: Some(2) } };
    assert_eq!(
        said(&[(700, Why::of(idle, Role::Server))]),
        "waking the threads took 700 us (exit from idle state 2)"
    );
}

#[test]
fn a_busy_pool_is_told_from_the_servers_own_sleep() {
    let pool = Reason::BusyPool { code: Some(1), call_ns: Some(30_000_000) };
    let busy = by(5, "cl-pool", "cl-pool", Class::Ordinary(0), pool);
    let sleep = by(2, "server", "server", Class::Ordinary(0), Reason::Sleep { call: None });
    assert_eq!(
        said(&[(30_000, busy.clone()), (30_000, busy.clone()), (30_000, busy), (30_000, sleep)]),
        "the server's pool was busy for 90.0 of 120 ms with calls of cl-pool (code 1, 30.0 ms each); then the \
         server slept for 30.0 ms (timer)"
    );
}

#[test]
fn unknown_time_is_said_with_what_is_known() {
    let behind = by(7, "rustc", "rustc", Class::Ordinary(0), Reason::Cpu);
    assert_eq!(
        said(&[(4_100, behind.clone()), (5_600, unknown_time())]),
        "cannot tell: 5.60 of 9.70 ms unknown (events were lost); known: the server waited 4.10 ms for a CPU, \
         behind rustc"
    );
    let slept = by(2, "server", "server", Class::Ordinary(0), Reason::Sleep { call: None });
    assert_eq!(
        said(&[(5_000, behind), (3_000, slept), (2_500, unknown_time())]),
        "mostly, the server waited 5.00 of 10.5 ms for a CPU, behind rustc; then the server slept for 3.00 ms \
         (timer); 2.50 ms unknown (events were lost)"
    );
}

#[test]
fn a_wait_of_a_kernel_thread_is_said_with_its_layer() {
    let worker = Thread { tid: 9, pid: Some(9), comm: "kworker/1:1H".into(), prio: Some(100) };
    let why = Why {
        role: Role::Worker,
        delayed: Some(worker),
        place: Some(Place::Layer("block")),
        ..by(7, "rustc", "opt cgu.00", Class::Ordinary(0), Reason::Cpu)
    };
    let device = Reason::Device { device: None, operation: Some("flush"), interrupt: None };
    let device =
        Why { process: None, thread: None, role: Role::Writer, ..by(1, "", "", Class::Unknown, device) };
    assert_eq!(
        said(&[(7_800, why), (200, device)]),
        "waited 7.80 of 8.00 ms in the block layer because kworker/1:1H was runnable behind rustc, thread opt \
         cgu.00"
    );
}

#[test]
fn one_program_in_two_classes_is_two_groups() {
    let of = |class| group(ReasonKind::Cpu, &Subject::Process { name: "python3".into(), class });
    assert_eq!(of(Class::Ordinary(0)), "behind python3");
    assert_eq!(of(Class::RealTime(50)), "behind python3 [real-time 50]");
}

#[test]
fn a_part_of_a_reason_is_said_before_what_it_belongs_to() {
    let device = |operation| {
        let reason = Reason::Device { device: None, operation: Some(operation), interrupt: None };
        Why { process: None, thread: None, role: Role::Writer, ..by(1, "", "", Class::Unknown, reason) }
    };
    let server = by(2, "server", "server", Class::Ordinary(0), Reason::OwnWork);
    assert_eq!(
        said(&[(93_200, device("write")), (45_800, device("flush")), (1_000, server)]),
        "the writer waited 139 of 140 ms for a device (93.2 ms of that: write)"
    );
    let behind = |pid, name| by(pid, name, name, Class::Ordinary(0), Reason::Cpu);
    assert_eq!(
        said(&[(12_000, behind(7, "rustc")), (5_000, behind(8, "git"))]),
        "the server waited 17.0 ms for a CPU, 12.0 ms of that behind rustc"
    );
    let interrupted = |name: &str| Why {
        process: None,
        thread: None,
        ..Why::of(Reason::SoftirqThread { name: name.into() }, Role::Server)
    };
    assert_eq!(
        said(&[(3_000, interrupted("ksoftirqd/0")), (1_000, interrupted("ksoftirqd/1"))]),
        "the server lost 4.00 ms of CPU time, 3.00 ms of that to softirqs in ksoftirqd/0"
    );
    let io = |pid, what| {
        let reason = Reason::BehindIo { what, device: None };
        by(pid, "fio", "fio", Class::Ordinary(0), reason)
    };
    assert_eq!(
        said(&[(3_000, io(7, Io::Requests)), (1_000, io(8, Io::Commit))]),
        "the server waited 4.00 ms behind the I/O of others, 3.00 ms of that behind requests of fio"
    );
}

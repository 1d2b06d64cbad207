//! The text of `trace-cmd report`. It is the kernel's, except for some events that trace-cmd prints
//! in forms of its own, such as `comm:pid [prio] STATE ==> comm:pid [prio]`.

/// An event's text as the kernel prints it; `None` if it is in the kernel's form already.
pub(super) fn in_the_kernels_form(event: &str, text: &str) -> Option<String> {
    match event {
        "sched_switch" if !text.starts_with("prev_comm=") => {
            let (prev, next) = text.rsplit_once(" ==> ")?;
            let (prev, state) = prev.rsplit_once(' ')?;
            let ([comm, pid, prio], [next_comm, next_pid, next_prio]) = (thread(prev)?, thread(next)?);
            Some(format!(
                "prev_comm={comm} prev_pid={pid} prev_prio={prio} prev_state={state} ==> \
                 next_comm={next_comm} next_pid={next_pid} next_prio={next_prio}"
            ))
        }
        "sched_wakeup" | "sched_wakeup_new" | "sched_waking" if !text.starts_with("comm=") => {
            let (who, cpu) = text.rsplit_once("CPU:")?;
            let [comm, pid, prio] = thread(who)?;
            Some(format!("comm={comm} pid={pid} prio={prio} target_cpu={}", cpu.trim()))
        }
        // A text of user space, after the function that wrote it.
        "print" => text.strip_prefix("tracing_mark_write: ").map(str::to_owned),
        _ => None,
    }
}

/// `comm:pid [prio]`, and what may follow: `success=1`.
fn thread(text: &str) -> Option<[&str; 3]> {
    let (before, _) = text.rsplit_once(']')?;
    let (who, prio) = before.rsplit_once(" [")?;
    let (comm, pid) = who.rsplit_once(':')?;
    let number =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    (number(pid) && number(prio)).then_some([comm, pid, prio])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_events_are_as_the_kernel_prints_them() {
        for (event, text, expected) in [
            (
                "sched_switch",
                "a ==> b:0 [120] R+ ==> c:d:10 [98]",
                "prev_comm=a ==> b prev_pid=0 prev_prio=120 prev_state=R+ ==> next_comm=c:d next_pid=10 \
                 next_prio=98",
            ),
            ("sched_wakeup", "x [1]:12 [120] success=1 CPU:003", "comm=x [1] pid=12 prio=120 target_cpu=003"),
            (
                "sched_waking",
                "x:12 [-1]<CANT FIND FIELD success> CPU:000",
                "comm=x pid=12 prio=-1 target_cpu=000",
            ),
        ] {
            assert_eq!(in_the_kernels_form(event, text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn the_kernels_own_form_stays() {
        assert_eq!(in_the_kernels_form("sched_waking", "comm=CPU:1 pid=5 prio=120 target_cpu=001"), None);
        let own =
            "prev_comm=a:1 [1] prev_pid=1 prev_prio=1 prev_state=S ==> next_comm=b next_pid=2 next_prio=2";
        assert_eq!(in_the_kernels_form("sched_switch", own), None);
        assert_eq!(in_the_kernels_form("sched_switch", "nonsense"), None);
    }
}

//! How threads are scheduled, in terms of sched(7).

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_FIFO` or `SCHED_RR`, with this priority.
    RealTime(u8),
    /// Ordinary, with this nice value.
    Ordinary(i8),
    /// Not recorded.
    Unknown,
}

impl Class {
    /// The class of a kernel priority, as in `task_struct.prio`.
    #[must_use]
    pub fn of(prio: Option<i32>) -> Self {
        match prio {
            None => Self::Unknown,
            Some(..=-1) => Self::Deadline,
            Some(prio @ 0..=99) => Self::RealTime((99 - prio) as u8),
            Some(prio) => Self::Ordinary((prio - 120).clamp(-20, 19) as i8),
        }
    }

    /// The name in files, in terms of sched(7): "real-time 50", "nice 5".
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Deadline => "deadline".into(),
            Self::RealTime(priority) => format!("real-time {priority}"),
            Self::Ordinary(0) => "other".into(),
            Self::Ordinary(nice) => format!("nice {nice}"),
            Self::Unknown => "unknown".into(),
        }
    }

    /// The class of this name; unknown if it is none.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name.split_once(' ') {
            None if name == "deadline" => Self::Deadline,
            None if name == "other" => Self::Ordinary(0),
            Some(("real-time", priority)) => priority.parse().map_or(Self::Unknown, Self::RealTime),
            Some(("nice", nice)) => nice.parse().map_or(Self::Unknown, Self::Ordinary),
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_by_its_name() {
        let all = [-1, 0, 49, 98, 100, 115, 120, 139].map(|prio| Class::of(Some(prio)));
        for class in all.into_iter().chain([Class::Unknown]) {
            assert_eq!(Class::of_name(&class.name()), class);
        }
        assert_eq!(Class::of_name("nice 500"), Class::Unknown);
    }
}

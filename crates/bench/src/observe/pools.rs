//! Groups a server's threads into pools by name: the names of a pool's threads differ only in
//! numbers. Must not know how a thread's name is found.

use std::collections::{HashMap, HashSet};

use roundtrip_run::ipc::observe::MAX_POOLS;

/// The pool of a thread: its name with `#` for each number. libbinder names a pool's threads by
/// process id and a hexadecimal count ("Binder:812_1F"), and the kernel truncates names to 15
/// bytes, so what follows the colon may be cut anywhere. `None` for an empty name.
pub(super) fn pool(name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    if let Some((driver, rest)) = name.split_once(':')
        && driver.to_ascii_lowercase().ends_with("binder")
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        return Some(format!("{driver}:#_#"));
    }
    let mut pool = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            pool.push(c);
        } else if !pool.ends_with('#') {
            pool.push('#');
        }
    }
    Some(pool)
}

/// The pools seen in each server.
#[derive(Debug, Default)]
pub(super) struct Pools(HashMap<u32, Vec<String>>);

impl Pools {
    /// The pool, unless it is new to this server and there is no room for it.
    pub(super) fn known(&mut self, server: u32, pool: Option<String>) -> Option<String> {
        let pool = pool?;
        let pools = self.0.get(&server).map_or(&[][..], Vec::as_slice);
        if !pools.contains(&pool) {
            if pools.len() >= MAX_POOLS {
                return None;
            }
            self.0.entry(server).or_default().push(pool.clone());
        }
        Some(pool)
    }

    /// Forgets all other servers.
    pub(super) fn keep(&mut self, servers: &HashSet<u32>) {
        self.0.retain(|server, _| servers.contains(server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_whose_names_differ_in_numbers_are_one_pool() {
        let of = |name: &str| pool(name).unwrap();
        for name in ["Binder:812_3", "Binder:812_A", "Binder:812_1F", "Binder:1234567_", "Binder:12345678"] {
            assert_eq!(of(name), "Binder:#_#", "{name}");
        }
        assert_eq!([of("HwBinder:812_1"), of("HwBinder:12345_")], ["HwBinder:#_#"; 2]);
        assert_eq!(of("vndbinder:12345"), "vndbinder:#_#");
        assert_eq!([of("worker-1"), of("worker-27")], ["worker-#"; 2]);
        assert_eq!([of("pool-3-thread-1"), of("pool-3-thread-2")], ["pool-#-thread-#"; 2]);
        assert_eq!([of("surfaceflinger"), of("Binder"), of("a:1")], ["surfaceflinger", "Binder", "a:#"]);
        assert_eq!(pool(""), None);
    }

    #[test]
    fn a_server_with_a_name_for_each_request_has_a_bounded_number_of_pools() {
        let mut pools = Pools::default();
        let name = |at: usize| Some("x".repeat(at + 1));
        let known: Vec<_> = (0..MAX_POOLS + 5).filter_map(|at| pools.known(1, name(at))).collect();
        assert_eq!(known.len(), MAX_POOLS);
        assert_eq!((pools.known(1, name(0)), pools.known(2, name(90))), (name(0), name(90)));
        assert_eq!((pools.known(1, None), pools.known(1, name(90))), (None, None));
        pools.keep(&[2].into());
        assert_eq!((pools.0.len(), pools.known(1, name(90))), (1, name(90)));
    }
}

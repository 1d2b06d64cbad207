//! The table of a process's published objects, with the driver's reference counts on them.
//!
//! The driver identifies a node by its `ptr` and `cookie` words, and sends them with each incoming
//! call. Here both words are a table index with a generation, never an address, so a lookup with a
//! wrong value simply finds nothing. This file does not talk to a driver and does not know what the
//! objects are.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use roundtrip_binder_driver::uapi::{BINDER_TYPE_BINDER, FlatBinderObject};

use crate::{NodeOptions, Stability};

/// A published object. It can be called while this value exists or another process holds a
/// reference.
#[derive(Debug)]
pub(crate) struct Node<T> {
    /// The node's `ptr` and `cookie`, which are equal.
    name: u64,
    flags: u32,
    stability: Stability,
    object: T,
    nodes: Weak<Nodes<T>>,
}

impl<T> Node<T> {
    /// The published object.
    pub(crate) fn object(&self) -> &T {
        &self.object
    }

    /// The stability of the object's interface.
    pub(crate) fn stability(&self) -> Stability {
        self.stability
    }

    /// The object to write to a parcel.
    pub(crate) fn to_object(&self) -> FlatBinderObject {
        let name = self.name;
        FlatBinderObject { kind: BINDER_TYPE_BINDER, flags: self.flags, binder: name, cookie: name }
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes.upgrade() {
            nodes.forget(self.name);
        }
    }
}

/// A process's published objects.
#[derive(Debug)]
pub(crate) struct Nodes<T>(RwLock<Slots<T>>);

/// A node's name has its slot in the lower 32 bits and a generation in the upper 32 bits. Slots are
/// reused, but names are not: the driver remembers a name while another process holds a weak
/// reference.
#[derive(Debug)]
struct Slots<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    name: u64,
    node: Weak<Node<T>>,
    /// The number of `BR_ACQUIRE`s minus the number of `BR_RELEASE`s. It can be negative for a
    /// moment, because two threads may handle a `BR_ACQUIRE` and a `BR_RELEASE` in the wrong order.
    references: i32,
    /// Keeps the node alive while the driver holds references.
    held: Option<Arc<Node<T>>>,
}

/// The name of the context manager's node, as the driver defines it.
const CONTEXT_MANAGER: u64 = 0;

fn slot_of(name: u64) -> usize {
    name as u32 as usize
}

impl<T> Nodes<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(RwLock::new(Slots { slots: vec![None], free: Vec::new(), generation: 0 })))
    }

    /// Publishes an object under a new name.
    pub(crate) fn publish(self: &Arc<Self>, object: T, options: NodeOptions) -> Arc<Node<T>> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slot = table.free.pop().unwrap_or_else(|| {
            table.slots.push(None);
            table.slots.len() as u32 - 1
        });
        table.generation = table.generation.wrapping_add(1);
        let name = u64::from(table.generation) << 32 | u64::from(slot);
        self.insert(&mut table, name, object, options)
    }

    /// Publishes the context manager's object, which serves calls to handle 0.
    pub(crate) fn publish_context_manager(self: &Arc<Self>, object: T, options: NodeOptions) -> Arc<Node<T>> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        self.insert(&mut table, CONTEXT_MANAGER, object, options)
    }

    fn insert(
        self: &Arc<Self>,
        table: &mut Slots<T>,
        name: u64,
        object: T,
        options: NodeOptions,
    ) -> Arc<Node<T>> {
        let node = Arc::new(Node {
            name,
            flags: options.flags(),
            stability: options.stability,
            object,
            nodes: Arc::downgrade(self),
        });
        table.slots[slot_of(name)] =
            Some(Entry { name, node: Arc::downgrade(&node), references: 0, held: None });
        node
    }

    /// Returns the node with this name.
    pub(crate) fn find(&self, ptr: u64, cookie: u64) -> Option<Arc<Node<T>>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = table.slots.get(slot_of(ptr))?.as_ref()?;
        (entry.name == ptr && ptr == cookie).then(|| entry.node.upgrade())?
    }

    /// Counts a reference that the driver took (1, `BR_ACQUIRE`) or released (-1, `BR_RELEASE`).
    pub(crate) fn count(&self, ptr: u64, change: i32) {
        let released;
        {
            let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
            let Some(Some(entry)) = table.slots.get_mut(slot_of(ptr)) else { return };
            if entry.name != ptr {
                return;
            }
            entry.references += change;
            let held = if entry.references > 0 { entry.node.upgrade() } else { None };
            released = std::mem::replace(&mut entry.held, held);
        }
        drop(released); // outside the lock: it may have been the last reference to the object
    }

    /// Drops all nodes that only other processes reference.
    pub(crate) fn release_all(&self) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let held: Vec<_> = table.slots.iter_mut().flatten().filter_map(|entry| entry.held.take()).collect();
        drop(table);
        drop(held);
    }

    fn forget(&self, name: u64) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slot = slot_of(name);
        if table.slots[slot].as_ref().is_some_and(|entry| entry.name == name) {
            table.slots[slot] = None;
            if name != CONTEXT_MANAGER {
                table.free.push(slot as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(nodes: &Arc<Nodes<()>>) -> (Arc<Node<()>>, u64) {
        let local = nodes.publish((), NodeOptions::BINDER);
        let name = local.to_object().binder;
        (local, name)
    }

    #[test]
    fn a_node_lives_while_the_driver_holds_a_reference() {
        let nodes = Nodes::new();
        let (local, name) = publish(&nodes);
        nodes.count(name, 1);
        drop(local);
        assert!(nodes.find(name, name).is_some());
        nodes.count(name, -1);
        assert!(nodes.find(name, name).is_none());
    }

    #[test]
    fn a_node_with_one_reference_left_stays_alive() {
        let nodes = Nodes::new();
        let (local, name) = publish(&nodes);
        for change in [1, 1, -1] {
            nodes.count(name, change);
        }
        drop(local);
        assert!(nodes.find(name, name).is_some());
    }

    #[test]
    fn a_name_is_never_reused() {
        let nodes = Nodes::new();
        let (local, first) = publish(&nodes);
        drop(local);
        let (_local, second) = publish(&nodes);
        assert_eq!(slot_of(first), slot_of(second));
        assert_ne!(first, second);
        assert!(nodes.find(first, first).is_none());
        assert!(nodes.find(second, first).is_none());
    }
}

//! A process's published objects, counted: the table in which the driver's names for them are
//! looked up.
//!
//! A node's `ptr` and `cookie` words travel through the driver and come back from other processes'
//! calls. They are numbers of a table, never addresses, so a wrong one is only not found. Nothing
//! here talks to a driver, or knows what is published.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use binder_driver::uapi::{BINDER_TYPE_BINDER, FlatBinderObject};

use crate::{NodeOptions, Stability};

/// A published object. It can be called as long as this, or another process's reference, is left.
#[derive(Debug)]
pub(crate) struct Node<T> {
    /// Both the `ptr` and the `cookie` that the driver knows.
    name: u64,
    flags: u32,
    stability: Stability,
    object: T,
    nodes: Weak<Nodes<T>>,
}

impl<T> Node<T> {
    /// What was published.
    pub(crate) fn object(&self) -> &T {
        &self.object
    }

    /// What its interface promises.
    pub(crate) fn stability(&self) -> Stability {
        self.stability
    }

    /// As written in a parcel.
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

/// A node's name is its slot in the lower and a generation in the upper 32 bits: a slot is used
/// again, a name never is, because the driver may remember a name for as long as another process
/// holds a weak reference.
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
    /// `BR_ACQUIRE`s less `BR_RELEASE`s. Two threads may handle one of each in the wrong order.
    references: i32,
    /// Keeps the node while the driver holds references.
    held: Option<Arc<Node<T>>>,
}

/// The context manager's name, which the driver chose.
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

    /// Publishes the object that calls to handle 0 arrive at.
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

    /// The object with this name.
    pub(crate) fn find(&self, ptr: u64, cookie: u64) -> Option<Arc<Node<T>>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = table.slots.get(slot_of(ptr))?.as_ref()?;
        (entry.name == ptr && ptr == cookie).then(|| entry.node.upgrade())?
    }

    /// The driver holds one reference more (`BR_ACQUIRE`) or less (`BR_RELEASE`).
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
        drop(released); // outside the lock: it may have been the last
    }

    /// Lets go of what is kept for others.
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
    fn references_counted_in_the_wrong_order_keep_the_node() {
        let nodes = Nodes::new();
        let (local, name) = publish(&nodes);
        for change in [1, 1, -1] {
            nodes.count(name, change);
        }
        drop(local);
        assert!(nodes.find(name, name).is_some());
    }

    #[test]
    fn a_name_is_never_used_again() {
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

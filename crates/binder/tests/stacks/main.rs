//! Both stacks over a driver. Apart from these, only tests that need a process of their own.

mod background;
mod calls;
mod descriptors;
mod frozen;
mod libbinder;
mod managers;
mod objects;
mod overwritten;
mod references;
#[path = "../support/mod.rs"]
mod support;

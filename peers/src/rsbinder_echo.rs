//! `rsbinder` over the same device: an interface with one method that echoes bytes, served by the
//! context manager itself, so that no service manager takes part.

use std::hint::black_box;

use rsbinder::{BinderResult, FromIBinder as _, Interface, ProcessState, StatusCode, Strong, interface};

use crate::{Call, DEVICE, Result};

#[interface(descriptor = "roundtrip.IBenchmark")]
pub trait IEcho {
    fn echo(&self, bytes: &[u8]) -> BinderResult<Vec<u8>>;
}

struct Echo;

impl Interface for Echo {}

impl IEcho for Echo {
    fn echo(&self, bytes: &[u8]) -> BinderResult<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

pub(crate) fn serve() -> Result<()> {
    // No more threads: the calling thread serves, as in the other peers.
    let process = ProcessState::init(DEVICE, 0)?;
    process.become_context_manager(BnEcho::new_binder(Echo).as_binder())?;
    Ok(ProcessState::join_thread_pool()?)
}

pub(crate) fn connect() -> Result<Call> {
    let process = ProcessState::init(DEVICE, 0)?;
    let mut service: Option<Strong<dyn IEcho>> = None;
    Ok(Box::new(move |payload| {
        if service.is_none() {
            match process.context_object() {
                Ok(object) => service = Some(<dyn IEcho>::try_from(object)?),
                Err(StatusCode::DeadObject) => return Ok(false),
                Err(other) => return Err(other.into()),
            }
        }
        let Some(service) = &service else { return Ok(false) };
        match black_box(service.echo(payload)?).len() == payload.len() {
            true => Ok(true),
            false => Err("the reply is not an echo".into()),
        }
    }))
}

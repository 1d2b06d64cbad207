//! What several tests share.

pub(crate) mod chromium;
pub(crate) mod csv;
pub(crate) mod global_trace;
pub(crate) mod long_run;
pub(crate) mod observed;
pub(crate) mod process;
pub(crate) mod stepped;
pub(crate) mod storage;
pub(crate) mod stored_run;
pub(crate) mod turn;
pub(crate) mod writes;

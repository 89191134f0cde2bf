//! How many read at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{Tenant, http::Refusal};

/// How many of each tenant's clients read events now.
#[derive(Debug)]
pub(crate) struct Seats {
    most: usize,
    taken: Mutex<HashMap<Tenant, usize>>,
}

/// A reader's. Free again when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    tenant: Tenant,
}

impl Seats {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    /// Takes a seat, where the tenant has one left.
    pub(super) fn take(self: &Arc<Self>, tenant: &Tenant) -> Result<Seat, Refusal> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(tenant.clone()).or_default();
        if *count >= self.most {
            return Err(Refusal::TooManyReaders { bound: self.most });
        }
        *count += 1;
        drop(taken);
        Ok(Seat { seats: Arc::clone(self), tenant: tenant.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

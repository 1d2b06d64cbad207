//! The conformance suite: what every driver must do, case by case, over the raw protocol.
//!
//! A case uses [`Device`] and knows no backend. Each backend instantiates the whole suite below.
//! Cases compare sequences of returns, states, reference counts and errors, never times. The suite
//! of the kernel driver is ignored by default; `cargo xtask guests` runs it in guests that have the
//! driver.

mod actor;
mod aosp;
mod begun;
mod buffers;
mod calls;
mod deaths;
mod devices;
mod differential;
mod extended_error;
mod fds;
mod freeze;
mod freeze_notices;
mod loopers;
mod message;
mod objects;
mod oneway;
mod pipes;
mod polling;
mod priorities;
mod references;
mod refusals;
mod spam;
mod sys;
mod weak;

use std::sync::Arc;

use roundtrip_binder_conformance::signals;
use roundtrip_binder_driver::Driver;

/// One binder device that processes can open.
pub(crate) trait Device {
    /// Makes an unused device.
    fn new() -> Self;
    /// Opens it as a separate process with a receive area of `area_bytes`.
    fn open_with_area(&self, area_bytes: u64) -> Arc<dyn Driver>;
    /// Opens it with an area of 128 KiB.
    fn open(&self) -> Arc<dyn Driver> {
        self.open_with_area(128 << 10)
    }
    /// Opens it as a driver whose reads can be switched between waiting and nonblocking.
    fn open_for_sequences(&self, area_bytes: u64) -> Arc<dyn Sequential>;
    /// The later features that the driver itself reports.
    fn later_features(&self) -> LaterFeatures;
    /// The driver's process id of the latest opener.
    fn last_opener(&self) -> i32;
    /// True if senders are notified that a oneway call waits for a frozen process.
    fn reports_frozen_receivers() -> bool {
        true
    }
    /// True if the driver has freeze notifications.
    fn has_freeze_notifications() -> bool {
        true
    }
    /// Waits until the driver has finished its deferred work after a close.
    fn settle();
    /// The number of the latest opener in [`Device::state`].
    fn last_number(&self) -> String;
    /// True if [`Device::state`] is available.
    fn shows_state() -> bool {
        true
    }
    /// The driver's state in the format of the kernel's `binder/state` in debugfs, with the lines
    /// for requested threads and free async space of `binder/stats`.
    fn state(&self) -> String;
    /// Waits until everything of the process with this number is released. It must have closed the
    /// device.
    fn wait_until_released(&self, number: &str);
}

/// A driver whose reads either wait or fail with EAGAIN if there is nothing to return.
pub(crate) trait Sequential: Driver {
    /// Selects one of the two for later reads.
    fn set_waiting(&self, waits: bool);
}

/// Features that not every driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaterFeatures {
    pub(crate) freeze: bool,
    pub(crate) oneway_spam_detection: bool,
    pub(crate) extended_error: bool,
    pub(crate) freeze_notification: bool,
}

macro_rules! case {
    (always $name:ident $case:path) => {
        #[test]
        fn $name() {
            $case();
        }
    };
    (with_kernel_driver $name:ident $case:path) => {
        #[test]
        #[ignore = "needs the kernel's binder driver: cargo xtask guests"]
        fn $name() {
            $case();
        }
    };
}

macro_rules! backend {
    ($backend:ident: $device:ty, $when:ident; $($module:ident { $($case:ident,)* })*) => {
        mod $backend {
            $(mod $module { $(
                case! { $when $case crate::$module::$case::<$device> }
            )* })*
        }
    };
}

/// The whole suite for one backend, with the priority cases of its profile.
macro_rules! suite {
    ($backend:ident: $device:ty, $when:ident; $($priority_case:ident),*) => {
        backend! {
            $backend: $device, $when;
            calls {
                a_call_gets_its_reply_together_with_transaction_complete,
                the_first_ioctl_of_a_thread_does_not_wait,
                a_reply_without_a_transaction_is_refused,
                a_call_to_an_unknown_handle_is_refused_without_waiting,
                a_call_without_a_context_manager_gets_a_dead_reply,
                the_context_manager_cannot_call_itself_by_handle_0,
                a_context_has_one_manager,
                a_nested_call_arrives_at_the_waiting_thread,
                an_unknown_command_is_invalid_and_earlier_commands_are_consumed,
                a_truncated_command_is_a_fault_and_earlier_commands_are_consumed,
                a_refused_call_is_reported_before_an_error_in_later_commands,
                memory_outside_the_passed_slices_is_not_read,
                a_server_sees_its_callers_process_and_user,
                a_read_with_room_for_the_largest_return_gets_a_transaction,
                a_read_with_little_room_returns_nothing_and_leaves_pending_work,
                a_signal_ends_the_wait_of_a_looper,
                a_signal_ends_the_wait_of_a_caller_and_its_call_continues,
            }
            buffers {
                a_full_area_refuses_and_recovers_when_a_buffer_is_freed,
                freed_neighbours_merge,
                a_large_payload_arrives_unchanged,
                a_buffer_is_freed_once_and_only_by_its_receiver,
                sizes_that_overflow_are_refused,
                a_buffer_is_zeroed_when_it_is_freed_if_its_sender_requests_that,
                the_buffer_of_a_reply_is_zeroed_too,
                a_buffer_that_was_not_delivered_cannot_be_freed,
                the_smallest_free_range_that_fits_is_used,
                an_area_has_whole_pages,
            }
            objects {
                a_node_arrives_as_a_handle_and_returns_to_its_owner_as_a_node,
                the_lowest_free_handle_is_used,
                a_handle_that_is_passed_on_refers_to_the_same_node,
                a_changed_cookie_is_refused,
                overlapping_offsets_and_offsets_outside_the_data_are_refused,
                a_scatter_gather_tree_arrives_with_fixed_up_pointers,
                a_tree_with_its_root_at_offset_0_is_refused,
                a_child_outside_its_parent_is_refused,
                buffers_larger_than_their_announced_size_are_refused,
                a_refused_transaction_leaks_no_reference_and_no_buffer,
            }
            references {
                an_owner_is_notified_of_the_first_and_the_last_reference,
                an_owner_is_notified_of_the_last_reference_after_it_acknowledged_the_first,
                counts_on_a_handle_end_with_the_handle,
                wrong_handles_and_acknowledgements_are_ignored,
                the_manager_reads_a_nodes_counts_over_all_processes,
                an_owner_can_list_its_nodes,
                the_manager_does_not_count_on_its_own_handle_0,
                references_of_a_buffer_are_released_with_it,
            }
            weak {
                a_weak_node_arrives_as_a_weak_handle_and_returns_to_its_owner_as_a_weak_node,
                a_weak_handle_cannot_be_called_or_made_strong,
                a_weak_handle_is_passed_on_only_as_a_weak_one,
                a_released_strong_reference_cannot_be_regained_through_a_weak_one,
            }
            oneway {
                oneway_calls_to_one_node_are_served_in_order_one_at_a_time,
                oneway_calls_to_two_nodes_do_not_wait_for_each_other,
                oneway_calls_may_use_half_of_the_area,
            }
            loopers {
                a_looper_is_requested_when_none_is_free_up_to_the_limit,
                two_loopers_serve_two_callers_at_once,
                an_interrupted_wait_returns_with_nothing,
                registering_an_unrequested_looper_does_not_count,
                the_looper_that_waited_last_is_chosen_first,
                the_looper_state_of_a_thread_is_recorded,
                a_poll_is_recorded_with_the_looper_state,
            }
            deaths {
                a_caller_of_a_dead_server_gets_a_dead_reply,
                a_caller_of_a_server_that_dies_during_the_call_gets_a_dead_reply,
                a_death_is_notified_once_to_each_requester,
                a_death_request_for_a_dead_node_is_notified_immediately,
                a_cleared_request_is_acknowledged,
                a_reply_to_a_dead_caller_is_complete,
                a_leaving_thread_fails_its_caller,
                the_context_manager_can_be_replaced_after_its_death,
                a_read_ends_with_a_death,
            }
            extended_error {
                an_error_is_reported_once_with_the_number_of_its_transaction,
                a_wrong_target_is_reported,
                wrong_sizes_and_addresses_are_reported,
                wrong_objects_are_reported,
                a_full_area_is_reported,
                a_refused_reply_is_reported_to_the_caller,
                a_server_that_leaves_is_not_an_error_of_the_transaction,
                a_call_before_reading_a_transaction_is_a_protocol_error,
                a_node_that_requests_security_contexts_gets_them_or_no_call,
            }
            freeze {
                a_call_to_a_frozen_process_is_refused_until_it_thaws,
                a_frozen_process_can_call_others,
                oneway_calls_to_a_frozen_process_are_queued,
                an_update_replaces_an_older_one_that_is_queued_for_a_frozen_process,
                a_busy_process_is_not_frozen,
                freezing_waits_for_transactions_to_end,
                a_waiting_caller_is_not_frozen,
                an_unknown_process_cannot_be_frozen,
                a_frozen_process_that_closes_is_unknown,
            }
            freeze_notices {
                a_watcher_is_notified_immediately_and_of_each_change,
                a_change_during_a_notification_is_sent_after_the_acknowledgement,
                a_cleared_freeze_notification_is_acknowledged_once,
                wrong_freeze_commands_are_invalid,
                a_freeze_notification_ends_with_its_handle_or_its_watcher,
                a_dead_node_is_neither_frozen_nor_thawed,
            }
            spam {
                the_sender_of_too_many_oneway_bytes_is_reported_once,
                spam_is_not_reported_without_a_request,
                spam_is_reported_again_after_the_area_was_freed,
            }
            fds {
                a_descriptor_arrives_as_a_descriptor_of_the_receiver,
                a_node_that_does_not_accept_descriptors_gets_none,
                a_reply_carries_descriptors_to_a_caller_that_accepts_them,
                an_invalid_descriptor_is_refused,
                a_descriptor_outlives_its_sender,
                an_array_arrives_and_is_closed_with_its_buffer,
                an_array_in_the_wrong_place_is_refused,
                many_descriptors_arrive_in_order,
                a_refused_transaction_leaks_no_descriptor,
                a_receiver_that_leaves_leaks_no_descriptor,
                descriptors_of_waiting_oneway_calls_wait_with_them,
                an_update_closes_the_descriptors_of_the_replaced_call,
            }
            aosp {
                an_empty_reply_has_no_target_code_or_flags,
                counts_on_handle_0_change_without_a_notification,
                a_request_on_handle_0_that_is_cleared_at_once_is_acknowledged_once,
                a_thread_that_has_left_may_enter_again,
                a_handle_contains_nothing_of_the_nodes_address_and_cookie,
                a_death_is_notified_only_to_processes_that_requested_it,
                a_death_before_the_request_is_notified_to_another_looper_while_the_requester_is_busy,
                the_buffers_of_nested_calls_are_adjacent_from_the_start_of_a_page,
                a_nonblocking_descriptor_stays_nonblocking,
            }
            polling {
                a_poll_finds_the_work_that_a_read_would,
                a_polling_thread_is_woken_when_no_thread_reads,
            }
            priorities {
                a_nice_value_is_inherited_and_restored,
                $($priority_case,)*
            }
        }
    };
}

suite! {
    emulated_ack: crate::devices::EmulatedAck, always;
    ack_inherits_a_real_time_priority_if_the_node_asks_for_it,
    ack_inherits_no_real_time_priority_otherwise,
    ack_serves_a_oneway_call_at_its_nodes_minimum_priority,
    ack_reads_a_nodes_nice_value_as_signed,
    ack_boosts_a_waiting_caller_that_serves_a_nested_call
}
suite! {
    emulated_mainline: crate::devices::EmulatedMainline, always;
    mainline_ignores_the_inherit_flag,
    mainline_reads_a_nodes_nice_value_as_unsigned
}
suite! {
    kernel_mainline: crate::devices::KernelDevice, with_kernel_driver;
    mainline_ignores_the_inherit_flag,
    mainline_reads_a_nodes_nice_value_as_unsigned
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn random_sequences_have_equal_results_on_the_kernel_and_the_emulated_driver() {
    differential::random_sequences_have_equal_results::<devices::KernelDevice, devices::EmulatedMainline>(
        true,
    );
}

#[test]
fn random_sequences_have_equal_results_on_both_profiles() {
    differential::random_sequences_have_equal_results::<devices::EmulatedAck, devices::EmulatedMainline>(
        false,
    );
}

#[test]
fn the_emulated_driver_matches_a_recorded_kernel() {
    differential::has_the_recorded_results::<devices::EmulatedMainline>(false);
}

#[test]
fn the_emulated_driver_matches_a_recorded_kernel_with_different_priorities() {
    differential::has_the_recorded_results::<devices::EmulatedMainline>(true);
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn the_kernel_driver_matches_its_recording() {
    if !differential::is_recorded_kernel() {
        return roundtrip_skips::skip(
            roundtrip_skips::Need::Machine,
            "no results of this kernel are recorded",
        );
    }
    differential::the_kernel_has_its_recorded_results::<devices::KernelDevice>();
}

/// The kernel driver differs: in it, the wait ends (`binder_wait_for_work`).
#[test]
fn a_restarting_signal_handler_does_not_end_a_wait_in_the_emulated_driver() {
    let device = devices::EmulatedMainline::new();
    let (server, client) = calls::pair(&device);
    let waiting = server.start(|desk| desk.write_read(&[roundtrip_binder_driver::Command::EnterLooper], &[]));
    for round in 1..=20 {
        assert!(waiting.is_waiting());
        let before = signals::SIGNALS_HANDLED.load(std::sync::atomic::Ordering::Relaxed);
        signals::restarting_signal(server.tid);
        // Handled by then; other tests send signals too, so that is not certain each time.
        while signals::SIGNALS_HANDLED.load(std::sync::atomic::Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        assert!(waiting.is_waiting(), "ended by signal {round}");
    }
    let call = client.call(0, 3, b"x");
    assert_eq!(actor::transaction(&waiting.wait()).code, 3);
    server.reply(b"").unwrap();
    assert_eq!(actor::names(&call.wait()), ["TransactionComplete", "Reply"]);
}

//! The conformance suite: what every driver must do, case by case, over the raw protocol.
//!
//! Each case is written against [`Device`] and knows no backend; each backend instantiates the
//! whole suite below. Cases compare sequences of returns, states, reference counts and errors,
//! never times. Those of the kernel's driver are ignored unless asked for: they need one, and
//! `cargo xtask guests` brings one.

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
mod signals;
mod spam;
mod sys;
mod weak;

use std::sync::Arc;

use binder_driver::Driver;

/// One binder device that processes can open.
pub(crate) trait Device {
    /// A device that nobody uses.
    fn new() -> Self;
    /// Opens it, as a process of its own, with a receive area of `area_bytes`.
    fn open_with_area(&self, area_bytes: u64) -> Arc<dyn Driver>;
    /// Opens it with an area of 128 KiB.
    fn open(&self) -> Arc<dyn Driver> {
        self.open_with_area(128 << 10)
    }
    /// Opens it so that it can be said of each read whether it waits.
    fn open_for_sequences(&self, area_bytes: u64) -> Arc<dyn Sequential>;
    /// Which of the later features it has, as the driver itself says.
    fn later_features(&self) -> LaterFeatures;
    /// The process id that whoever opened it last has for the driver.
    fn last_opener(&self) -> i32;
    /// Whether senders are told that a oneway call waits for a frozen process.
    fn tells_of_frozen_receivers() -> bool {
        true
    }
    /// Whether who asks is told of frozen processes.
    fn tells_of_freezes() -> bool {
        true
    }
    /// Returns when the driver has done what it does some time after a close.
    fn settle();
    /// What [`Device::state`] calls the process that opened it last.
    fn last_number(&self) -> String;
    /// Whether [`Device::state`] can be had.
    fn tells_state() -> bool {
        true
    }
    /// What the driver holds, in the form of the kernel's `binder/state` in debugfs, with the lines
    /// on requested threads and free async space that the kernel has in `binder/stats`.
    fn state(&self) -> String;
    /// Returns when everything that the process with this number held is released. It has closed
    /// the device.
    fn wait_until_released(&self, number: &str);
}

/// A driver whose reads either wait or fail with EAGAIN where there is nothing to return.
pub(crate) trait Sequential: Driver {
    /// Says which of the two, for reads that begin from now on.
    fn set_waiting(&self, waits: bool);
}

/// What not every driver has.
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

/// The whole suite for one backend, with those cases on priorities that only its profile has.
macro_rules! suite {
    ($backend:ident: $device:ty, $when:ident; $($priority_case:ident),*) => {
        backend! {
            $backend: $device, $when;
            calls {
                a_call_is_answered_and_complete_comes_with_the_reply,
                the_first_ioctl_of_a_thread_does_not_wait,
                a_reply_without_a_transaction_is_refused,
                an_unknown_handle_is_refused_and_nobody_waits,
                a_call_without_a_context_manager_finds_it_dead,
                the_context_manager_cannot_call_itself_by_handle_0,
                there_is_one_context_manager,
                a_nested_call_comes_back_to_the_waiting_thread,
                an_unknown_command_is_invalid_and_what_came_before_it_was_taken,
                a_command_that_is_cut_off_is_a_fault_and_what_came_before_it_was_taken,
                a_refused_call_is_told_before_what_is_wrong_with_the_commands_behind_it,
                memory_that_was_not_lent_is_not_read,
                the_caller_is_named_to_the_server,
                a_read_with_room_for_the_largest_return_brings_a_transaction,
                a_read_with_little_room_brings_nothing_and_leaves_what_waits,
                a_signal_ends_the_wait_of_a_looper,
                a_signal_ends_the_wait_of_a_caller_and_its_call_goes_on,
            }
            buffers {
                a_full_area_refuses_and_recovers_when_a_buffer_is_freed,
                freed_neighbours_merge,
                a_large_payload_arrives_whole,
                a_buffer_is_freed_once_and_only_by_its_receiver,
                sizes_that_overflow_are_refused,
                a_buffer_is_cleared_when_it_is_freed_if_its_sender_asks_for_that,
                a_replys_buffer_is_cleared_as_well,
                a_buffer_that_was_not_delivered_cannot_be_freed,
                the_smallest_free_stretch_that_fits_is_taken,
                an_area_has_whole_pages,
            }
            objects {
                a_node_arrives_as_a_handle_and_comes_home_as_a_node,
                the_lowest_free_handle_is_given_out,
                a_handle_passed_on_reaches_the_same_node,
                a_cookie_that_changed_is_refused,
                offsets_that_overlap_or_lie_outside_are_refused,
                a_scatter_gather_tree_arrives_with_its_pointers_put_right,
                a_tree_whose_root_lies_at_offset_0_is_refused,
                a_child_outside_its_parent_is_refused,
                buffers_larger_than_their_announced_size_are_refused,
                a_refused_transaction_leaves_no_reference_and_no_buffer,
            }
            references {
                an_owner_is_told_of_the_first_and_the_last_reference,
                an_owner_is_told_of_the_last_reference_when_it_has_acknowledged_the_first,
                counts_on_a_handle_end_with_the_handle,
                wrong_handles_and_acknowledgements_are_ignored,
                the_manager_reads_the_counts_on_a_node_over_all_processes,
                an_owner_can_list_its_nodes,
                the_manager_does_not_count_on_its_own_handle_0,
                what_a_buffer_holds_ends_with_the_buffer,
            }
            weak {
                a_weak_node_arrives_as_a_weak_handle_and_comes_home_as_a_weak_node,
                a_weak_handle_is_neither_called_nor_made_strong,
                a_weak_handle_is_passed_on_as_a_weak_one_only,
                a_strong_reference_that_ended_does_not_come_back_through_a_weak_one,
            }
            oneway {
                oneway_calls_of_one_node_are_served_in_order_one_at_a_time,
                oneway_calls_of_two_nodes_do_not_wait_for_each_other,
                oneway_calls_may_use_half_of_the_area,
            }
            loopers {
                a_looper_is_asked_for_when_none_is_left_up_to_the_limit,
                two_loopers_serve_two_callers_at_once,
                an_interrupted_wait_returns_with_nothing,
                registering_unasked_does_not_count,
                the_looper_that_came_last_is_chosen_first,
                what_a_thread_says_of_itself_is_noted,
                a_poll_is_noted_beside_what_a_thread_has_said_of_itself,
            }
            deaths {
                a_caller_of_a_dead_server_gets_a_dead_reply,
                a_caller_of_a_server_that_dies_during_the_call_gets_a_dead_reply,
                a_death_is_told_once_to_those_who_asked,
                asking_for_the_death_of_a_dead_node_is_answered_at_once,
                a_cleared_request_is_acknowledged,
                a_reply_to_a_dead_caller_is_complete,
                a_leaving_thread_fails_its_caller,
                the_context_manager_can_be_replaced_after_its_death,
                a_read_ends_with_a_death,
            }
            extended_error {
                an_error_is_told_once_with_the_number_of_its_transaction,
                a_wrong_target_is_told,
                wrong_sizes_and_addresses_are_told,
                wrong_objects_are_told,
                a_full_area_is_told,
                a_refused_reply_is_told_to_the_caller,
                a_server_that_leaves_is_no_error_of_the_transaction,
                a_call_with_a_transaction_unread_is_refused_as_a_protocol_error,
                a_node_that_wants_its_callers_security_context_gets_it_or_no_call,
            }
            freeze {
                a_call_to_a_frozen_process_is_refused_until_it_thaws,
                a_frozen_process_may_call_others,
                oneway_calls_to_a_frozen_process_are_kept,
                an_update_takes_the_place_of_an_older_one_at_a_frozen_process,
                a_busy_process_is_not_frozen,
                freezing_waits_for_transactions_to_end,
                a_waiting_caller_is_not_frozen,
                an_unknown_process_cannot_be_frozen,
                a_frozen_process_that_closes_is_gone,
            }
            freeze_notices {
                who_asks_is_told_at_once_and_of_each_change,
                a_change_meanwhile_is_told_after_the_acknowledgement,
                a_cleared_freeze_notification_is_acknowledged_once,
                wrong_freeze_commands_are_invalid,
                a_freeze_notification_ends_with_its_handle_or_its_watcher,
                a_dead_node_is_neither_frozen_nor_thawed,
            }
            spam {
                the_sender_of_too_many_oneway_bytes_is_suspected_once,
                who_did_not_ask_is_not_told_of_spam,
                suspicion_begins_anew_when_the_area_was_freed,
            }
            fds {
                a_descriptor_arrives_as_one_of_the_receivers_own,
                a_node_that_does_not_accept_descriptors_gets_none,
                a_reply_brings_descriptors_to_a_caller_that_accepts_them,
                a_descriptor_that_is_none_is_refused,
                a_descriptor_outlives_its_sender,
                an_array_arrives_and_ends_with_its_buffer,
                an_array_in_the_wrong_place_is_refused,
                many_descriptors_arrive_in_their_order,
                a_refused_transaction_keeps_no_descriptor,
                a_receiver_that_leaves_keeps_no_descriptor,
                descriptors_of_waiting_oneway_calls_wait_with_them,
                an_update_keeps_no_descriptor_of_what_it_replaces,
            }
            aosp {
                an_empty_reply_names_no_target_no_code_and_no_flags,
                counts_on_handle_0_come_and_go_and_nobody_is_told,
                a_request_on_handle_0_that_is_cleared_at_once_is_acknowledged_once,
                a_thread_that_has_left_may_enter_again,
                nothing_of_a_nodes_address_and_cookie_is_left_in_a_handle,
                a_death_is_told_to_each_process_that_asked_and_to_no_other,
                a_death_before_the_request_is_told_to_another_looper_while_the_asking_one_is_busy,
                the_buffers_of_nested_calls_lie_side_by_side_from_the_start_of_a_page,
                a_descriptor_that_does_not_block_arrives_as_one,
            }
            polling {
                a_thread_that_polls_finds_what_a_read_would,
                who_polls_is_woken_when_nobody_reads,
            }
            priorities {
                a_nice_value_is_lent_and_restored,
                $($priority_case,)*
            }
        }
    };
}

suite! {
    emulated_ack: crate::devices::EmulatedAck, always;
    ack_lends_a_real_time_priority_to_a_node_that_inherits_it,
    ack_lends_no_real_time_priority_to_other_nodes,
    ack_gives_a_oneway_call_its_nodes_least_priority,
    ack_takes_a_nodes_least_nice_value_as_signed,
    ack_lends_to_a_caller_that_a_nested_call_comes_back_to
}
suite! {
    emulated_mainline: crate::devices::EmulatedMainline, always;
    mainline_ignores_the_wish_to_inherit,
    mainline_takes_a_nodes_least_nice_value_as_unsigned
}
suite! {
    kernel_mainline: crate::devices::KernelDevice, with_kernel_driver;
    mainline_ignores_the_wish_to_inherit,
    mainline_takes_a_nodes_least_nice_value_as_unsigned
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn random_sequences_bring_the_same_on_the_kernels_driver_and_the_emulated_one() {
    differential::random_sequences_bring_the_same_on_both::<devices::KernelDevice, devices::EmulatedMainline>(
        true,
    );
}

#[test]
fn random_sequences_bring_the_same_on_both_profiles() {
    differential::random_sequences_bring_the_same_on_both::<devices::EmulatedAck, devices::EmulatedMainline>(
        false,
    );
}

#[test]
fn the_emulated_driver_answers_as_a_recorded_kernel_did() {
    differential::answers_as_the_recorded_kernel::<devices::EmulatedMainline>(false);
}

#[test]
fn the_emulated_driver_answers_as_a_recorded_kernel_did_where_priorities_differ() {
    differential::answers_as_the_recorded_kernel::<devices::EmulatedMainline>(true);
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn the_kernels_driver_answers_what_was_recorded() {
    if !differential::is_recorded_kernel() {
        return skips::skip(skips::Need::Machine, "no answers of this kernel are recorded");
    }
    differential::the_kernel_answers_as_recorded::<devices::KernelDevice>();
}

/// On the kernel's driver it does (`binder_wait_for_work`).
#[test]
fn a_handler_that_restarts_ends_no_wait_in_the_emulated_driver() {
    let device = devices::EmulatedMainline::new();
    let (server, client) = calls::pair(&device);
    let waiting = server.start(|desk| desk.write_read(&[binder_driver::Command::EnterLooper], &[]));
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

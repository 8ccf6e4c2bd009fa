"""Which test sees the effect of each field of a policy: `Model.field` by the test's file and name."""

EFFECTS: dict[str, str] = {
    "tests/schemas/policy/test_effects.py::test_each_switch_marks_evictions_dry": (
        "DeschedulingLimits.dryRun MigrationControllerArgs.dryRun"
    ),
    "tests/schemas/policy/test_maintenance.py::test_every_list_must_have_a_window_open": (
        "MaintenanceArgs.namespaces MaintenanceArgs.pools MaintenanceArgs.windows "
        "NamespaceWindows.name NamespaceWindows.windows"
    ),
    "tests/schemas/policy/test_selectors.py::test_matches_labels_as_kubernetes_does": (
        "LabelRequirement.key LabelRequirement.operator LabelRequirement.values "
        "LabelSelector.matchExpressions LabelSelector.matchLabels"
    ),
    "tests/schemas/policy/test_windows.py::test_a_window_over_midnight_ends_on_the_morning_after": (
        "FilterWindow.days FilterWindow.from FilterWindow.to HotspotWindow.days "
        "HotspotWindow.from HotspotWindow.to WeeklyWindow.days WeeklyWindow.from "
        "WeeklyWindow.to"
    ),
    "tests/schemas/policy/test_windows.py::test_times_are_those_of_the_offset": (
        "FilterWindow.utcOffset HotspotWindow.utcOffset WeeklyWindow.utcOffset"
    ),
    "tests/streams/aggregate/test_collect.py::test_a_pool_inherits_what_it_does_not_give": (
        "AggregatePolicy.durations CollectPolicies.metricAggregateDurationSeconds "
        "CollectPolicies.metricAggregatePolicy CollectPolicies.metricMemoryCollectPolicy "
        "CollectPolicies.metricReportIntervalSeconds CollectPolicies.pools Policy.collect "
        "PoolCollectPolicy.metricAggregateDurationSeconds "
        "PoolCollectPolicy.metricAggregatePolicy PoolCollectPolicy.metricMemoryCollectPolicy "
        "PoolCollectPolicy.metricReportIntervalSeconds PoolCollectPolicy.name"
    ),
    "tests/streams/placement/plugins/test_limits_aware.py::"
    "test_a_pod_without_a_limit_counts_with_the_default_one": (
        "NodeResourceLimitsAwareArgs.defaultLimit"
    ),
    "tests/streams/placement/plugins/test_limits_aware.py::test_the_example_of_kep_217": (
        "Policy.resourceLimits"
    ),
    "tests/streams/placement/plugins/test_limits_aware.py::"
    "test_the_raw_score_is_the_weighted_share_that_limits_leave": (
        "NodeResourceLimitsAwareArgs.resources ResourceWeight.name ResourceWeight.weight"
    ),
    "tests/streams/placement/plugins/test_balanced_allocation.py::"
    "test_the_policy_names_the_resources": (
        "NodeResourcesBalancedAllocationArgs.resources Policy.balancedAllocation"
    ),
    "tests/streams/placement/plugins/test_least_allocated.py::"
    "test_a_strategy_that_there_is_not_scores_nothing": "ScoringStrategy.type",
    "tests/streams/placement/plugins/test_least_allocated.py::"
    "test_resources_weigh_as_the_policy_says": (
        "NodeResourcesFitArgs.scoringStrategy Policy.resourcesFit ScoringStrategy.resources"
    ),
    "tests/streams/inventory/test_fleet_usage.py::test_the_policy_says_what_is_expected_before": (
        "OverutilizationRiskArgs.deviationPriorPercent OverutilizationRiskArgs.spreadPriorPercent "
        "OverutilizationRiskArgs.usagePriorPercent OverutilizationRiskArgs.usagePriorPods"
    ),
    "tests/streams/cluster/test_owner_table.py::"
    "test_a_pod_counts_by_what_its_owners_other_pods_use": "OverutilizationRiskArgs.profiles",
    "tests/streams/inventory/test_node_moments.py::"
    "test_a_young_pod_is_measured_by_the_newest_metric": (
        "OverutilizationRiskArgs.meanPriorMinutes"
    ),
    "tests/streams/inventory/test_node_moments.py::"
    "test_what_was_used_lately_counts_as_far_as_it_lasts": (
        "OverutilizationRiskArgs.recentMinutes"
    ),
    "tests/streams/inventory/test_node_moments.py::test_a_life_is_added_up_one_window_apart": (
        "OverutilizationRiskArgs.variancePriorMinutes"
    ),
    "tests/streams/placement/plugins/test_overutilization_risk.py::"
    "test_a_node_beyond_what_it_has_is_worse_than_one_that_is_merely_hot": (
        "OverutilizationRiskArgs.excessWeight"
    ),
    "tests/streams/placement/plugins/test_overutilization_risk.py::test_resources_are_weighed": (
        "OverutilizationRiskArgs.resources Policy.overutilizationRisk RiskResource.name "
        "RiskResource.weight"
    ),
    "tests/streams/placement/plugins/test_overutilization_risk.py::"
    "test_the_policy_says_from_which_share_on_a_node_is_hot": ("RiskResource.hotPercent"),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_aggregated_thresholds_take_the_place_of_the_plain_ones": (
        "AggregatedArgs.usageAggregatedDuration AggregatedArgs.usageThresholds "
        "LoadAwareSchedulingArgs.aggregated"
    ),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_prod_pods_are_judged_by_prod_thresholds_alone": (
        "LoadAwareSchedulingArgs.prodUsageThresholds"
    ),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_prod_pods_may_be_scored_by_what_prod_pods_use": (
        "LoadAwareSchedulingArgs.scoreAccordingProdUsage"
    ),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_prod_pods_may_have_to_pass_the_thresholds_of_the_whole_node_too": (
        "AggregatedArgs.usageAggregationType LoadAwareSchedulingArgs.checkBoth"
    ),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_the_first_resource_by_name_is_the_reason": ("LoadAwareSchedulingArgs.usageThresholds"),
    "tests/streams/placement/plugins/test_load_aware.py::test_the_score_goes_by_its_own_statistic": (
        "AggregatedArgs.scoreAggregatedDuration AggregatedArgs.scoreAggregationType"
    ),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_the_score_is_the_weighted_mean_of_what_is_left": (
        "LoadAwareSchedulingArgs.dominantResourceWeight "
        "LoadAwareSchedulingArgs.resourceWeights LoadAwareSchedulingArgs.supportedResources"
    ),
    "tests/streams/placement/plugins/test_load_aware.py::"
    "test_what_an_expired_metric_means_is_said_by_two_switches": (
        "LoadAwareSchedulingArgs.enableScheduleWhenNodeMetricsExpired "
        "LoadAwareSchedulingArgs.filterExpiredNodeMetrics"
    ),
    "tests/streams/placement/plugins/test_registry.py::test_the_policy_enables_orders_and_weighs": (
        "Plugin.name PluginChoice.filter PluginChoice.score Policy.plugins ScorePlugin.name "
        "ScorePlugin.weight"
    ),
    "tests/streams/cluster/test_closed_loop.py::test_in_a_cluster_that_observes_nothing_moves": (
        "Policy.mode"
    ),
    "tests/streams/placement/test_estimates_by_profile.py::"
    "test_a_pod_is_estimated_by_what_its_owners_other_pods_use": (
        "LoadAwareSchedulingArgs.estimateBy"
    ),
    "tests/streams/placement/test_estimates_by_profile.py::"
    "test_a_margin_is_part_of_the_deviation": "LoadAwareSchedulingArgs.estimateMarginPercent",
    "tests/streams/inventory/test_estimate.py::test_a_pod_may_bring_its_own_factors": (
        "LoadAwareSchedulingArgs.allowCustomizeEstimation"
    ),
    "tests/streams/inventory/test_estimate.py::test_estimation_may_go_on_for_a_while": (
        "LoadAwareSchedulingArgs.estimatedSecondsAfterInitialized "
        "LoadAwareSchedulingArgs.estimatedSecondsAfterPodScheduled"
    ),
    "tests/streams/inventory/test_estimate.py::test_other_resources_are_expected_of_prod_pods_only": (
        "LoadAwareSchedulingArgs.estimatedScalingFactors"
    ),
    "tests/streams/inventory/test_inventory.py::test_another_policy_judges_freshness_anew": (
        "LoadAwareSchedulingArgs.nodeMetricExpirationSeconds Policy.loadAware"
    ),
    "tests/streams/inventory/test_load.py::test_prod_usage_may_start_from_the_systems": (
        "LoadAwareSchedulingArgs.prodUsageIncludeSys"
    ),
    "tests/streams/inventory/test_usage_history.py::test_a_pod_is_placed_as_soon_as_the_window_opens": (
        "MovingFilter.windows MovingThresholds.filter"
    ),
    "tests/streams/inventory/test_usage_history.py::test_a_window_moves_each_kind_of_threshold_by_itself": (
        "FilterWindow.aggregatedUsageThresholds FilterWindow.prodUsageThresholds "
        "FilterWindow.usageThresholds"
    ),
    "tests/streams/inventory/test_usage_history.py::"
    "test_the_recent_past_of_the_whole_cluster_makes_whole_percents": ("MovingFilter.recentPast"),
    "tests/streams/placement/test_pending.py::test_the_back_off_doubles_up_to_its_limit": (
        "Policy.initialBackoffSeconds Policy.maxBackoffSeconds"
    ),
    "tests/streams/placement/test_placement.py::"
    "test_more_requests_than_may_wait_go_to_dead_letters_before_the_first_tick": (
        "Policy.maxPendingRequests"
    ),
    "tests/streams/placement/test_placement.py::"
    "test_reservations_that_end_at_once_end_over_several_ticks": ("Policy.reservationSeconds"),
    "tests/streams/cluster/test_rebalancer.py::"
    "test_at_the_peak_a_batch_pod_is_commanded_to_leave_within_all_limits_though_no_room_is_reserved": (
        "MovingThresholds.hotspots Policy.movingThresholds"
    ),
    "tests/streams/cluster/test_rebalancer.py::"
    "test_nodes_are_packed_ahead_of_a_round_only_when_one_is_near": (
        "DeschedulingLimits.deschedulingInterval"
    ),
    "tests/streams/cluster/test_state.py::test_the_policy_says_how_far_ahead_a_metric_may_be": (
        "Policy.metricFutureSeconds"
    ),
    "tests/streams/migration/test_arbitration.py::"
    "test_a_command_carries_how_and_under_what_conditions": (
        "DeleteOptions.dryRun DeleteOptions.gracePeriodSeconds "
        "DeleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential "
        "DeleteOptions.orphanDependents DeleteOptions.preconditions "
        "DeleteOptions.propagationPolicy MigrationControllerArgs.defaultDeleteOptions "
        "MigrationControllerArgs.evictionPolicy Preconditions.resourceVersion"
    ),
    "tests/streams/migration/test_arbitration.py::test_arbitration_is_made_once_an_interval": (
        "ArbitrationArgs.interval MigrationControllerArgs.arbitrationArgs"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_a_node_selector_an_age_and_fit_are_asked_of_node_time_and_cluster": (
        "DefaultEvictorArgs.minPodAge DefaultEvictorArgs.nodeFit "
        "DefaultEvictorArgs.nodeSelector MigrationControllerArgs.nodeFit "
        "MigrationControllerArgs.nodeSelector"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_a_protection_that_is_disabled_by_its_name_is_lifted": ("PodProtections.defaultDisabled"),
    "tests/streams/migration/test_gates.py::test_a_round_has_limits_that_begin_anew": (
        "DeschedulingLimits.maxNoOfPodsToEvictPerNamespace "
        "DeschedulingLimits.maxNoOfPodsToEvictPerNode "
        "DeschedulingLimits.maxNoOfPodsToEvictTotal Policy.descheduling"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_a_verdict_is_kept_until_the_pod_or_the_policy_changes": ("Namespaces.exclude"),
    "tests/streams/migration/test_gates.py::"
    "test_a_workload_has_no_more_evictions_than_its_limiter_allows": (
        "MigrationControllerArgs.objectLimiters ObjectLimiter.burst ObjectLimiter.duration "
        "ObjectLimiter.maxMigrating"
    ),
    "tests/streams/migration/test_gates.py::test_a_workload_that_would_move_whole_is_left_alone": (
        "MigrationControllerArgs.skipCheckExpectedReplicas"
    ),
    "tests/streams/migration/test_gates.py::test_arguments_lift_and_add_protections": (
        "DefaultEvictorArgs.evictDaemonSetPods DefaultEvictorArgs.evictFailedBarePods "
        "DefaultEvictorArgs.evictLocalStoragePods DefaultEvictorArgs.evictSystemCriticalPods "
        "DefaultEvictorArgs.ignorePvcPods DefaultEvictorArgs.labelSelector "
        "DefaultEvictorArgs.podProtections DefaultEvictorArgs.priorityThreshold "
        "MigrationControllerArgs.evictAllBarePods MigrationControllerArgs.evictFailedBarePods "
        "MigrationControllerArgs.evictLocalStoragePods "
        "MigrationControllerArgs.evictSystemCriticalPods "
        "MigrationControllerArgs.ignorePvcPods MigrationControllerArgs.labelSelector "
        "MigrationControllerArgs.namespaces MigrationControllerArgs.priorityThreshold "
        "MigrationControllerArgs.skipEvictionGates Namespaces.include PodProtections.config "
        "PodProtections.extraEnabled PodsWithPVC.protectedStorageClasses Policy.compat "
        "Policy.evictor Policy.migration PriorityThreshold.value ProtectionConfig.PodsWithPVC "
        "StorageClass.name"
    ),
    "tests/streams/migration/test_gates.py::test_evictions_a_second_are_limited_in_the_logs_time": (
        "MigrationControllerArgs.evictBurst MigrationControllerArgs.evictQPS"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_maintenance_windows_hold_back_wishes_and_commands": ("Policy.maintenance"),
    "tests/streams/migration/test_gates.py::"
    "test_pods_of_other_schedulers_are_left_alone_or_evicted_directly": (
        "MigrationControllerArgs.defaultJobMode MigrationControllerArgs.schedulerNames "
        "Policy.otherSchedulers"
    ),
    "tests/streams/migration/test_gates.py::test_replicas_and_budgets_that_must_be_there": (
        "DefaultEvictorArgs.ignorePodsWithoutPDB DefaultEvictorArgs.minReplicas"
    ),
    "tests/streams/migration/test_gates.py::test_the_limit_over_all_ends_the_round": (
        "MigrationControllerArgs.maxMigratingGlobally"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_the_limit_per_namespace_counts_the_namespace_alone": (
        "MigrationControllerArgs.maxMigratingPerNamespace"
    ),
    "tests/streams/migration/test_gates.py::test_the_limit_per_node_ends_the_node": (
        "MigrationControllerArgs.maxMigratingPerNode"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_the_limit_per_workload_is_a_share_of_its_replicas": (
        "MigrationControllerArgs.maxMigratingPerWorkload"
    ),
    "tests/streams/migration/test_gates.py::"
    "test_unavailable_pods_count_those_not_ready_moving_and_missing": (
        "MigrationControllerArgs.maxUnavailablePerWorkload"
    ),
    "tests/streams/migration/test_named.py::test_a_priority_class_is_worth_what_the_cluster_says": (
        "PriorityThreshold.name"
    ),
    "tests/streams/migration/test_named.py::"
    "test_pods_of_a_namespace_whose_labels_match_may_leave_as_soon_as_these_are_known": (
        "DefaultEvictorArgs.namespaceLabelSelector"
    ),
    "tests/streams/migration/test_requests.py::"
    "test_a_time_to_live_of_0_is_a_week_and_no_longer_one_is_given": (
        "MigrationControllerArgs.defaultJobTTL"
    ),
    "tests/streams/migration/test_waiting.py::"
    "test_a_pool_with_another_name_lets_no_waiting_migration_slip_through_a_window": (
        "PoolWindows.name PoolWindows.windows"
    ),
    "tests/streams/migration/test_waiting.py::test_a_round_is_dry_by_its_own_switch": (
        "LowNodeLoadArgs.dryRun"
    ),
    "tests/streams/moves/test_followed.py::"
    "test_an_eviction_is_reported_once_the_time_of_the_policy_in_force_is_over": (
        "MoveArgs.followSeconds Policy.moves"
    ),
    "tests/streams/moves/test_history.py::"
    "test_a_loop_is_frozen_at_its_first_return_and_longer_each_time": (
        "MoveArgs.maxFreezeSeconds MoveArgs.maxMovesPerOwner"
    ),
    "tests/streams/moves/test_history.py::"
    "test_a_node_that_stays_hot_is_remembered_beyond_the_window": ("MoveArgs.loopWindowSeconds"),
    "tests/streams/moves/test_history.py::"
    "test_a_pod_is_kept_away_while_the_node_is_hot_or_cooling": (
        "MoveArgs.coolingMetrics MoveArgs.coolingSeconds"
    ),
    "tests/streams/moves/test_history.py::test_a_pod_that_comes_straight_back_freezes_its_owner": (
        "MoveArgs.initialFreezeSeconds"
    ),
    "tests/streams/moves/test_history.py::"
    "test_upstream_remembers_nothing_and_so_does_a_policy_that_says_so": ("MoveArgs.enabled"),
    "tests/streams/moves/test_unmovable.py::"
    "test_a_pod_that_is_larger_than_any_room_is_left_alone_until_it_is_not": (
        "MoveArgs.initialUnmovableSeconds"
    ),
    "tests/streams/moves/test_unmovable.py::"
    "test_the_wait_doubles_with_each_attempt_in_vain_up_to_its_limit": (
        "MoveArgs.maxUnmovableSeconds"
    ),
    "tests/streams/rebalance/test_balance.py::"
    "test_pods_that_prefer_no_eviction_come_last_where_the_evictor_says_preferred": (
        "DefaultEvictorArgs.noEvictionPolicy"
    ),
    "tests/streams/rebalance/test_balance.py::test_pods_that_the_policy_leaves_alone_stay": (
        "LowNodeLoadArgs.evictableNamespaces LowNodeLoadArgs.podSelectors "
        "PodSelector.selector Policy.rebalance"
    ),
    "tests/streams/rebalance/test_risk_moves.py::test_a_move_that_gains_too_little_is_not_made": (
        "Policy.riskMoves RiskMoveArgs.gain"
    ),
    "tests/streams/rebalance/test_risk_moves.py::test_a_pod_that_came_lately_stays": (
        "RiskMoveArgs.minPodAgeMinutes"
    ),
    "tests/streams/rebalance/test_risk_moves.py::"
    "test_a_round_moves_no_more_pods_than_the_policy_says": ("RiskMoveArgs.maxMovesPerRound"),
    "tests/streams/rebalance/test_risk_moves.py::"
    "test_the_policy_says_for_how_long_a_pod_rests_that_a_move_has_brought": (
        "RiskMoveArgs.restMinutes"
    ),
    "tests/streams/rebalance/test_targets.py::"
    "test_with_node_fit_a_pod_goes_only_where_it_could_run": ("LowNodeLoadArgs.nodeFit"),
    "tests/streams/rebalance/test_counters.py::test_calm_rounds_in_a_row_end_the_abnormal_state": (
        "AnomalyCondition.consecutiveNormalities"
    ),
    "tests/streams/rebalance/test_counters.py::test_n_rounds_are_n_rounds": (
        "AnomalyCondition.consecutiveAbnormalities"
    ),
    "tests/streams/rebalance/test_counters.py::"
    "test_what_no_round_has_judged_for_long_is_forgotten": (
        "AnomalyCondition.timeout LowNodeLoadArgs.detectorCacheTimeout"
    ),
    "tests/streams/rebalance/koordinator/test_rules.py::"
    "test_the_number_of_pods_weighs_in_where_the_weights_name_it": (
        "LowNodeLoadArgs.anomalyCondition LowNodeLoadArgs.resourceWeights "
        "NodePool.anomalyCondition NodePool.resourceWeights"
    ),
    "tests/streams/rebalance/koordinator/test_rules.py::"
    "test_what_a_later_pool_fills_in_reaches_an_earlier_one_in_the_next_round": (
        "LowNodeLoadArgs.highThresholds LowNodeLoadArgs.lowThresholds "
        "LowNodeLoadArgs.nodePools LowNodeLoadArgs.prodHighThresholds "
        "LowNodeLoadArgs.prodLowThresholds NodePool.highThresholds NodePool.lowThresholds "
        "NodePool.prodHighThresholds NodePool.prodLowThresholds"
    ),
    "tests/streams/rebalance/test_dynamic_thresholds.py::"
    "test_a_window_moves_thresholds_of_prod_pods_by_themselves": (
        "HotspotWindow.prodHighThresholds HotspotWindow.prodLowThresholds"
    ),
    "tests/streams/rebalance/test_dynamic_thresholds.py::"
    "test_at_the_peak_batch_and_free_pods_leave_without_a_target_until_the_node_is_below": (
        "HotspotWindow.evictWithoutTarget"
    ),
    "tests/streams/rebalance/test_dynamic_thresholds.py::"
    "test_mean_and_deviations_of_the_newest_rounds_make_the_threshold": (
        "MovingHotspots.recentPast RecentPast.atLeast RecentPast.atMost RecentPast.deviations "
        "RecentPast.rounds"
    ),
    "tests/streams/rebalance/test_dynamic_thresholds.py::test_the_window_that_is_open_holds_and_is_reported": (
        "HotspotWindow.highThresholds HotspotWindow.lowThresholds MovingHotspots.windows"
    ),
    "tests/streams/rebalance/test_dynamic_thresholds.py::test_what_does_not_go_together_is_refused": (
        "MovingHotspots.pool NodePool.useDeviationThresholds"
    ),
    "tests/streams/rebalance/test_pools.py::test_a_deviation_of_zero_is_a_threshold": (
        "LowNodeLoadArgs.useDeviationThresholds"
    ),
    "tests/streams/rebalance/test_pools.py::"
    "test_a_policy_that_does_not_enable_the_plugin_moves_nothing_and_says_so": (
        "PluginChoice.balance"
    ),
    "tests/streams/rebalance/test_pools.py::"
    "test_nodes_that_the_policy_does_not_look_at_are_no_part_of_a_round": (
        "DeschedulingLimits.nodeSelector LowNodeLoadArgs.nodeSelector NodePool.nodeSelector"
    ),
    "tests/streams/rebalance/test_pools.py::"
    "test_nothing_happens_while_paused_and_nothing_is_counted": ("LowNodeLoadArgs.paused"),
    "tests/streams/rebalance/test_pools.py::test_number_of_nodes_asks_for_more_targets": (
        "LowNodeLoadArgs.numberOfNodes"
    ),
    "tests/streams/rebalance/test_pools.py::test_pods_stay_within_their_pool": ("NodePool.name"),
    "tests/streams/rebalance/test_pools.py::test_the_policy_says_how_old_a_metric_may_be": (
        "LowNodeLoadArgs.nodeMetricExpirationSeconds"
    ),
}

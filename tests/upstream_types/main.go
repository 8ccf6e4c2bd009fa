// Command upstream-types writes documents as Kubernetes, metrics-server and Koordinator marshal them,
// from their own Go types, into the folder that it is given. Tests read these files; nothing at run
// time does.
//
//	go run . ../connectors/kubernetes/sources/documents
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/koordinator-sh/koordinator/apis/extension"
	slo "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var at = meta.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func pointer[T any](value T) *T { return &value }

func amounts(cpu, memory string) core.ResourceList {
	return core.ResourceList{
		core.ResourceCPU:    resource.MustParse(cpu),
		core.ResourceMemory: resource.MustParse(memory),
	}
}

// summary is what /stats/summary answers; the second pod has no figures for its CPU yet.
func summary() any {
	cpu := func(nanoCores uint64) *stats.CPUStats {
		return &stats.CPUStats{Time: at, UsageNanoCores: &nanoCores, UsageCoreNanoSeconds: pointer(nanoCores * 100)}
	}
	memory := func(workingSet uint64) *stats.MemoryStats {
		return &stats.MemoryStats{
			Time: at, AvailableBytes: pointer(uint64(1 << 33)), UsageBytes: pointer(workingSet * 3 / 2),
			WorkingSetBytes: &workingSet, RSSBytes: pointer(workingSet / 2),
			PageFaults: pointer(uint64(7)), MajorPageFaults: pointer(uint64(0)),
		}
	}
	started := meta.NewTime(at.Add(-time.Hour))
	return stats.Summary{
		Node: stats.NodeStats{
			NodeName: "node-1", StartTime: started, CPU: cpu(1_500_000_000), Memory: memory(4 << 30),
			Fs:   &stats.FsStats{Time: at, UsedBytes: pointer(uint64(20 << 30)), CapacityBytes: pointer(uint64(100 << 30))},
			Swap: &stats.SwapStats{Time: at, SwapAvailableBytes: pointer(uint64(1 << 30)), SwapUsageBytes: pointer(uint64(4096))},
			SystemContainers: []stats.ContainerStats{{
				Name: "kubelet", StartTime: started, CPU: cpu(50_000_000), Memory: memory(1 << 26),
			}},
		},
		Pods: []stats.PodStats{
			{
				PodRef:    stats.PodReference{Name: "web-0", Namespace: "shop", UID: "8a1c0f44-0000-4000-8000-000000000001"},
				StartTime: started, CPU: cpu(250_000_000), Memory: memory(1 << 28),
				Containers: []stats.ContainerStats{{
					Name: "web", StartTime: started, CPU: cpu(240_000_000), Memory: memory(1 << 28),
				}},
				EphemeralStorage: &stats.FsStats{Time: at, UsedBytes: pointer(uint64(1 << 20))},
				Swap:             &stats.SwapStats{Time: at, SwapUsageBytes: pointer(uint64(0))},
			},
			{
				PodRef:     stats.PodReference{Name: "new", Namespace: "shop", UID: "8a1c0f44-0000-4000-8000-000000000002"},
				StartTime:  at,
				CPU:        &stats.CPUStats{Time: at, UsageCoreNanoSeconds: pointer(uint64(5))},
				Memory:     memory(1 << 24),
				Containers: []stats.ContainerStats{},
			},
		},
	}
}

func nodeMetrics() any {
	return metrics.NodeMetricsList{
		TypeMeta: meta.TypeMeta{Kind: "NodeMetricsList", APIVersion: "metrics.k8s.io/v1beta1"},
		Items: []metrics.NodeMetrics{{
			ObjectMeta: meta.ObjectMeta{Name: "node-1", CreationTimestamp: at, Labels: map[string]string{"a": "b"}},
			Timestamp:  at, Window: meta.Duration{Duration: 20*time.Second + 64*time.Millisecond},
			Usage: amounts("329087452n", "2748180Ki"),
		}},
	}
}

func podMetrics() any {
	return metrics.PodMetricsList{
		TypeMeta: meta.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"},
		Items: []metrics.PodMetrics{{
			ObjectMeta: meta.ObjectMeta{Name: "web-0", Namespace: "shop", CreationTimestamp: at},
			Timestamp:  meta.NewTime(at.Add(-2 * time.Second)), Window: meta.Duration{Duration: 15 * time.Second},
			Containers: []metrics.ContainerMetrics{
				{Name: "web", Usage: amounts("100m", "64Mi")},
				{Name: "proxy", Usage: amounts("1234567n", "1Mi")},
			},
		}},
	}
}

func nodeMetric() any {
	aggregated := []slo.AggregatedUsage{{
		Duration: meta.Duration{Duration: 5 * time.Minute},
		Usage: map[extension.AggregationType]slo.ResourceMap{
			extension.AVG: {ResourceList: amounts("1", "4Gi")},
			extension.P95: {ResourceList: amounts("1500m", "5Gi")},
		},
	}}
	return slo.NodeMetric{
		TypeMeta:   meta.TypeMeta{Kind: "NodeMetric", APIVersion: "slo.koordinator.sh/v1alpha1"},
		ObjectMeta: meta.ObjectMeta{Name: "node-1", UID: "8a1c0f44-0000-4000-8000-000000000009", ResourceVersion: "7"},
		Spec: slo.NodeMetricSpec{CollectPolicy: &slo.NodeMetricCollectPolicy{
			AggregateDurationSeconds: pointer(int64(300)), ReportIntervalSeconds: pointer(int64(60)),
			NodeAggregatePolicy:     &slo.AggregatePolicy{Durations: []meta.Duration{{Duration: 5 * time.Minute}}},
			NodeMemoryCollectPolicy: pointer(slo.UsageWithoutPageCache),
		}},
		Status: slo.NodeMetricStatus{
			UpdateTime: &at,
			NodeMetric: &slo.NodeMetricInfo{
				NodeUsage: slo.ResourceMap{ResourceList: amounts("1200m", "4Gi")}, AggregatedNodeUsages: aggregated,
				SystemUsage: slo.ResourceMap{ResourceList: amounts("200m", "1Gi")}, AggregatedSystemUsages: aggregated,
			},
			PodsMetric: []*slo.PodMetricInfo{{
				Name: "web-0", Namespace: "shop", PodUsage: slo.ResourceMap{ResourceList: amounts("900m", "2Gi")},
				Priority: extension.PriorityProd, QoS: extension.QoSLS,
			}},
			HostApplicationMetric: []*slo.HostApplicationMetricInfo{{
				Name: "nginx", Usage: slo.ResourceMap{ResourceList: amounts("50m", "64Mi")}, Priority: extension.PriorityBatch,
			}},
			ProdReclaimableMetric: &slo.ReclaimableMetric{Resource: slo.ResourceMap{ResourceList: amounts("10m", "1Mi")}},
		},
	}
}

func main() {
	for name, document := range map[string]any{
		"stats_summary": summary(), "node_metrics": nodeMetrics(), "pod_metrics": podMetrics(), "koordinator_node_metric": nodeMetric(),
	} {
		text, err := json.MarshalIndent(document, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name+".json"), append(text, '\n'), 0o644)
		}
		if err != nil {
			panic(err)
		}
	}
}

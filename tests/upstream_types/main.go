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
		"node_metrics": nodeMetrics(), "pod_metrics": podMetrics(), "koordinator_node_metric": nodeMetric(),
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

package guest

import (
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tetratelabs/wazero/api"

	"talon/sdk/abi"
)

// values are the metrics that a module keeps itself. Each instance has its own values. So
// their further use takes no lock and allocates nothing.
type values struct {
	counters map[string]prometheus.Counter
	gauges   map[string]prometheus.Gauge
}

// metric adds to a counter or sets a gauge. Names are constants of the module,
// so one that is wrong, and one too many, is its failure.
func metric(c *call, mem api.Memory, stack []uint64) {
	name, value := read(mem, stack[1], stack[2]), api.DecodeF64(stack[3])
	if math.IsNaN(value) || math.IsInf(value, 0) {
		panic(errArgument)
	}
	switch v := &c.inst.values; uint32(stack[0]) {
	case abi.MetricCounter:
		if value < 0 {
			panic(errArgument)
		}
		counter, known := v.counters[string(name)]
		if !known {
			counter = c.inst.counter(name)
		}
		counter.Add(value)
	case abi.MetricGauge:
		gauge, known := v.gauges[string(name)]
		if !known {
			gauge = c.inst.gauge(name)
		}
		gauge.Set(value)
	default:
		panic(errArgument)
	}
}

// unseen are where values go for which there is no room.
var (
	unseenCounter = prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_total"})
	unseenGauge   = prometheus.NewGauge(prometheus.GaugeOpts{Name: "unseen"})
)

func (inst *instance) counter(name []byte) prometheus.Counter {
	counter := unseenCounter
	if m := inst.module.metrics; inst.mayName(name) {
		counter = m.all.counters.WithLabelValues(m.name, string(name))
	}
	inst.values.counters[string(name)] = counter
	return counter
}

func (inst *instance) gauge(name []byte) prometheus.Gauge {
	gauge := unseenGauge
	if m := inst.module.metrics; inst.mayName(name) {
		gauge = m.all.gauges.WithLabelValues(m.name, string(name))
	}
	inst.values.gauges[string(name)] = gauge
	return gauge
}

const maxMetricName = 64

// mayName checks a name that the instance has not used yet, and reports whether
// there is room for one more of the plugin.
func (inst *instance) mayName(name []byte) bool {
	if len(name) == 0 || len(name) > maxMetricName {
		panic(errArgument)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			panic(errArgument)
		}
	}
	if !inst.module.valueNames.admit(string(name)) {
		panic(errArgument)
	}
	return inst.module.metrics.values.admit(string(name))
}

// names are the words of a plugin that become labels of metrics, over all its
// generations: the words are the module's choice, their number is not.
type names struct {
	max int

	mu   sync.Mutex // guards the field below
	seen map[string]struct{}
}

// admit reports whether the word may be a label: it was one before, or there is
// room for one more.
func (n *names) admit(word string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[word]; ok {
		return true
	}
	if len(n.seen) >= n.max {
		return false
	}
	if n.seen == nil {
		n.seen = make(map[string]struct{})
	}
	n.seen[word] = struct{}{}
	return true
}

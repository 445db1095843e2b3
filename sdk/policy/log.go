package policy

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Log writes a line to the operator's log. It needs the capability "log". Lines
// beyond the host's limit are dropped.
func (f Facts) Log(level Level, text string) {
	f.c.host.log(int32(level), text)
}

// Level is the weight of a line in the log.
type Level = module.Level

const (
	Debug = module.Debug
	Info  = module.Info
	Warn  = module.Warn
	Error = module.Error
)

// Count adds n, 0 or more, to a counter of the operator's metrics. A name is a-z,
// 0-9 and _; a module has 32 at most. It needs the capability "metric".
func (f Facts) Count(name string, n float64) {
	f.c.host.metric(abi.MetricCounter, name, n)
}

// Gauge sets a gauge of the operator's metrics. It needs the capability "metric".
func (f Facts) Gauge(name string, value float64) {
	f.c.host.metric(abi.MetricGauge, name, value)
}

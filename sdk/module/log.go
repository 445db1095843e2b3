package module

import "talon/sdk/abi"

// Level is the weight of a line in the log.
type Level int32

const (
	Debug Level = abi.LevelDebug
	Info  Level = abi.LevelInfo
	Warn  Level = abi.LevelWarn
	Error Level = abi.LevelError
)

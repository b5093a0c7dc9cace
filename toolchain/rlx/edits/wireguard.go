package edits

// wireguardEdits bound what a tunnel takes of 32 MiB. The module's queues are
// channels of these sizes, and whoever finds one full waits or drops: with them
// every buffer that there can be is counted. On a phone the module has such
// numbers, too (queueconstants_android.go), but they are larger than the box.
var wireguardEdits = []Edit{
	{
		Name: "queues of a small box", File: "device/queueconstants_default.go",
		Why: `1,024 packets in each of the queues, of 64 KiB each, and two queues for each peer,
are more than the box has. With these numbers 16 peers under full load hold 16 times
40 packets of 2 KiB, 1.3 MiB, and 64 handshakes 128 KiB.`,
		Old: `	QueueStagedSize            = conn.IdealBatchSize
	QueueOutboundSize          = 1024
	QueueInboundSize           = 1024
	QueueHandshakeSize         = 1024
	MaxSegmentSize             = (1 << 16) - 1 // largest possible UDP datagram
`,
		New: `	QueueStagedSize            = 8
	QueueOutboundSize          = 16
	QueueInboundSize           = 16
	QueueHandshakeSize         = 64
	MaxSegmentSize             = 1 << 11
`,
	},
	{
		Name: "queues of a small box: import", File: "device/queueconstants_default.go",
		Why: "As above.",
		Old: `import "golang.zx2c4.com/wireguard/conn"

`,
		New: "",
	},
}

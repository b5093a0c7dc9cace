package edits

// sshBounds bound what a session of x/crypto/ssh takes of 32 MiB.
var sshBounds = []Edit{
	{
		Name: "the window of a channel", File: "ssh/channel.go",
		Why: `What a client sends and nobody has read is kept, up to this: 2 MiB in each of the
32 channels that the gateway's connections may have, more than the box has. With
128 KiB they are 4 MiB together; a client a tenth of a second away still sends a
megabyte a second, which is more than the core decrypts.`,
		Old: `	channelWindowSize = 64 * channelMaxPacket
`,
		New: `	channelWindowSize = 4 * channelMaxPacket
`,
	},
}

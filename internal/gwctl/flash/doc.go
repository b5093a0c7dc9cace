// Package flash is gwctl's subcommand flash: it brings an image to a gateway
// through its bootloader, from a workstation, by TFTP. Only cmd/gwctl has it.
//
// The gateway runs this firmware or today's, and is asked by SSH to wait in its
// loader; or it waits there already. Everything that can be checked is checked
// before anything changes, what a flash of userdata would lose is put into the
// image that is sent, and every failure says in which state the gateway is.
//
// It knows no SSH: a Box is somebody else's login (package remote).
package flash

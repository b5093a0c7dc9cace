// Package filelock has one program at a time use a file, on each system that
// gwctl runs on. The lock dies with its process.
package filelock

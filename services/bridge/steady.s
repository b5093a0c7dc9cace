// Nothing: with an assembly file in the package the compiler lets steady.go
// declare functions of the runtime without a body.

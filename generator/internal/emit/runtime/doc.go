// Package runtime is the part of the generated code that does not depend on the
// scripts. The generator copies its files, under the name of the user's package,
// so that generated code needs no module but rueidis.
package runtime

const packageName = "runtime"

package main

import "syscall"

// dieWithParent has the kernel kill the command when rlock is killed.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

// Package rlockadmin looks at the locks of a server and repairs them: for tools, dashboards and people on
// call. It tells who holds a lock, who waits for it, and which locks there are, frees what a process that is
// gone has left, and gives a holder more time. A program that takes locks needs package rlock only.
//
//	admin, err := rlockadmin.New(client)
//	…
//	for state, err := range admin.List(ctx, "app:*") {
//		…
//		for _, holder := range state.Holders {
//			if strings.HasPrefix(holder.Owner, "web-3 ") { // as rlock.DefaultOwner has it of the host web-3
//				err = admin.ForceRelease(ctx, state.Key, holder.Token())
//			}
//		}
//	}
//
// Keys are those of the server: what rlock.WithPrefix puts in front of a key is a part of them, as it is in
// the Key of an error or an event. docs/PRODUCTION.md names the rights that the user needs.
package rlockadmin

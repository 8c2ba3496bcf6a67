// Package mongo tests rlockmongo on a server that speaks MongoDB's protocol: FerretDB, which the tests embed,
// with SQLite. If RLOCK_MONGODB has a mongodb:// URI, they run what they can on that server too.
//
// FerretDB is not all that MongoDB is. It reads a document, and writes it later, while another command may
// have changed it; MongoDB changes a document atomically, which is what rlockmongo relies on. So the tests
// have a proxy before FerretDB that lets one command after another through. FerretDB has no index that
// deletes documents, no replicas, and ignores concerns: the proxy shows that rlockmongo asks for them. What a
// set of replicas does with them needs RLOCK_MONGODB.
//
// It is a module of its own, because FerretDB requires much.
package mongo

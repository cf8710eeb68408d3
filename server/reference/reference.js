// Shows the OpenAPI description of this server: each operation with its parameters and answers.

/** An element with a text or children. */
function make(tag, ...children) {
  const element = document.createElement(tag);
  element.append(...children);
  return element;
}

/** A table of rows: a name as code, and what it means. */
const table = (rows) =>
  make("table", ...rows.map(([name, text]) => make("tr", make("td", make("code", name)), make("td", text))));

/** A schema with what its references stand for, in JSON; one within itself stays a reference. */
function expanded(part, schemas, above = []) {
  if (Array.isArray(part)) return part.map((one) => expanded(one, schemas, above));
  if (part === null || typeof part !== "object") return part;
  const name = part.$ref?.split("/").pop();
  if (name) return above.includes(name) ? part : expanded(schemas[name], schemas, [...above, name]);
  return Object.fromEntries(Object.entries(part).map(([key, one]) => [key, expanded(one, schemas, above)]));
}

/** The bodies of a request or an answer, by media type. */
const bodies = (content, schemas) =>
  Object.entries(content ?? {}).map(([type, { schema }]) =>
    make("details", make("summary", type), make("pre", JSON.stringify(expanded(schema, schemas), null, 2))));

/** An operation, closed until it is looked at. */
function operation(path, method, about, schemas) {
  const shown = make("details", make("summary", make("code", `${method.toUpperCase()} ${path}`), about.summary ?? ""));
  shown.append(...(about.description ?? "").split("\n\n").map((text) => make("p", text)));
  const parameters = about.parameters ?? [];
  if (parameters.length) {
    const rows = parameters.map((one) => [one.name, `${one.description ?? ""} (${one.in}${one.required ? ", needed" : ""})`]);
    shown.append(make("h4", "Parameters"), table(rows));
  }
  if (about.requestBody) {
    shown.append(make("h4", "Body"), make("p", about.requestBody.description ?? ""), ...bodies(about.requestBody.content, schemas));
  }
  shown.append(make("h4", "Answers"));
  for (const [status, one] of Object.entries(about.responses)) {
    shown.append(table([[status, one.description]]), ...(status < 400 ? bodies(one.content, schemas) : []));
  }
  return shown;
}

const found = await (await fetch("openapi.json")).json();
document.querySelector("main").append(
  ...Object.entries(found.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => operation(path, method, about, found.components.schemas))));

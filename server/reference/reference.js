// Shows the OpenAPI description of this server: each operation with its parameters and answers.

const found = await (await fetch("openapi.json")).json();

/** An element with texts and other elements in it. */
function make(tag, ...children) {
  const element = document.createElement(tag);
  element.append(...children.filter(Boolean));
  return element;
}

const line = (name, text) => make("p", make("code", name), ` ${text ?? ""}`);
const whole = (name, value) => make("details", make("summary", name), make("pre", JSON.stringify(value, null, 2)));
const bodies = (content) => Object.entries(content ?? {}).map(([type, { schema }]) => whole(type, schema));

for (const [path, methods] of Object.entries(found.paths)) {
  for (const [method, about] of Object.entries(methods)) {
    const parameters = (about.parameters ?? []).map((one) => line(one.name, `(${one.in}) ${one.description ?? ""}`));
    const answers = Object.entries(about.responses).flatMap(([status, one]) => [
      line(status, one.description), ...bodies(one.content)]);
    document.body.append(make("details",
      make("summary", make("code", `${method.toUpperCase()} ${path}`), ` ${about.summary}`),
      make("p", about.description), ...parameters, ...bodies(about.requestBody?.content), ...answers));
  }
}
document.body.append(make("h2", "Schemas"), ...Object.entries(found.components.schemas).map(([name, one]) => whole(name, one)));
